// The kernels of the float codecs, once, over a Format:
//   struct Format { using Element = ...; static F32x16 Load(const void* p); static void Store(void* p, F32x16
//   v); };
//
// Order of every sum, whatever the blocking: over dims ascending in one accumulator per (query, row) for
// scores; over rows ascending in one accumulator per (query, dim) for V tiles.
#pragma once

#include "codec/float_layout.h"
#include "codec/kernels/latent.h"
#include "codec/kernels/query_blocks.h"

namespace holdfast::HOLDFAST_ISA_NS {

// Register blocking: accumulators that fit, queries a block, vectors of a V slice at a time.
#if defined(HOLDFAST_ISA_AVX512)
inline constexpr int kScoreAccumulators = 16;
inline constexpr int kScoreQueries = 8;
inline constexpr int kValueQueries = 6;
inline constexpr int kValueVectors = 4;
#elif defined(HOLDFAST_ISA_SCALAR)
inline constexpr int kScoreAccumulators = 2;
inline constexpr int kScoreQueries = 2;
inline constexpr int kValueQueries = 2;
inline constexpr int kValueVectors = 1;
#else
inline constexpr int kScoreAccumulators = 6;
inline constexpr int kScoreQueries = 6;
inline constexpr int kValueQueries = 6;
inline constexpr int kValueVectors = 1;
#endif

// Tiles side by side: with more, what is asked for ahead crowds the first-level cache.
inline constexpr int kMostTiles = 2;
// How far ahead tiles are asked for, as measured; the same for both halves, or those between would be left out.
inline constexpr int kTilesAhead = 4;

// Many queries read rows that were converted to floats once for all of them; so much memory of the first-level cache
// holds the converted tiles.
inline constexpr int kConvertedBytes = 32 << 10;
inline constexpr int kConvertedAtOnce = 16 << 10;  // leaves room for the queries and their sums

static inline constexpr int TilesFor(int queries, int accumulators) {
  const int tiles = accumulators / queries;
  return tiles > kMostTiles ? kMostTiles : tiles < 1 ? 1 : tiles;
}

namespace {

// Floats as they are: what the other formats' rows are converted to. Without a name outside this file, as every format
// is: the linker could share its kernels otherwise.
struct PlainFloats {
  using Element = float;
  HF_INLINE F32x16 Load(const void* p) { return HOLDFAST_ISA_NS::Load(static_cast<const float*>(p)); }
  HF_INLINE void Store(void* p, F32x16 v) { HOLDFAST_ISA_NS::Store(static_cast<float*>(p), v); }
};

}  // namespace

// What is asked for while tiles [i, i + n) are at hand, `bytes` from `offset` on of as many tiles further on, a line at a time:
// all at once would be more than the processor can be waiting for.
class Ahead {
 public:
  HF_MEMBER Ahead(const ChunkTiles& tiles, int i, int n, int offset, int bytes)
      : tiles_(tiles),
        tile_(i),
        last_(i + n),
        ahead_(n < kTilesAhead ? kTilesAhead : n),
        offset_(offset),
        bytes_(bytes) {
    Start();
  }

  HF_MEMBER void Line() {
    if (at_ >= end_) return;
    PrefetchFar(at_);
    at_ += 64;
    if (at_ >= end_ && ++tile_ < last_) Start();
  }

 private:
  HF_MEMBER void Start() {
    at_ = TileAhead(tiles_, tile_, ahead_) + offset_;
    end_ = at_ + bytes_;
  }

  const ChunkTiles& tiles_;
  int tile_;
  const int last_, ahead_, offset_, bytes_;
  const std::byte* at_;
  const std::byte* end_;
};

template <typename Format>
struct FloatKernels {
  using Element = typename Format::Element;
  static constexpr int kElementBytes = static_cast<int>(sizeof(Element));
  static constexpr int kVectorBytes = 16 * kElementBytes;
  static constexpr int kDimsPerLine = 64 / kVectorBytes;  // of a K tile
  static constexpr bool kConverts = kElementBytes < static_cast<int>(sizeof(float));
  using Plain = FloatKernels<PlainFloats>;

  static int64_t PreparedBytes(RowFormat format) {
    return (static_cast<int64_t>(format.dim) * 4 + 63) / 64 * 64;
  }

  static void Prepare(const float* query, RowFormat format, std::byte* prepared) {
    __builtin_memcpy(prepared, query, static_cast<size_t>(format.dim) * 4);
  }

  // ahead: the rows are in the first-level cache, and this is asked for beside them; or null.
  struct ScoreBlock {
    // Tiles [i, i + T) against Q queries of `stride` floats.
    template <int Q, int T>
    HF_INLINE void Tiles(const float* query, int64_t stride, int dim, const ChunkTiles& tiles, int i,
                         bool ask_ahead, Ahead* ahead, float* scores) {
      F32x16 sum[T][Q];
      const std::byte* tile[T];
      const std::byte* next[T];
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        tile[t] = tiles.tile[i + t];
        next[t] = TileAhead(tiles, i + t, kTilesAhead);
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) sum[t][q] = Zero();
      }
      AskInOrder<T, true> ask(next, dim * kVectorBytes);
      for (int d = 0; d < dim; ++d) {
        if (ask_ahead && d % kDimsPerLine == 0) ask.Lines();
        // Every second dim will do: more than kScoreQueries queries pass all dims twice at least.
        if (ahead != nullptr && d % 2 == 0) ahead->Line();
        F32x16 k[T];
#pragma GCC unroll 16
        for (int t = 0; t < T; ++t) {
          k[t] = Format::Load(tile[t] + d * kVectorBytes);
        }
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
          const F32x16 x = Set(query[q * stride + d]);
#pragma GCC unroll 16
          for (int t = 0; t < T; ++t) sum[t][q] = Fma(k[t], x, sum[t][q]);
        }
      }
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
        for (int t = 0; t < T; ++t) Store(scores + q * kChunkRows + (i + t) * kTileRows, sum[t][q]);
      }
    }

    template <int Q>
    HF_NOINLINE static void Run(int first, const float* queries, int64_t stride, int dim,
                                const ChunkTiles* tiles, Ahead* ahead, float* scores) {
      constexpr int kTiles = TilesFor(Q, kScoreAccumulators);
      const float* query = queries + first * stride;
      float* out = scores + first * kChunkRows;
      const bool ask_ahead = first == 0 && ahead == nullptr;
      int i = tiles->begin;
      for (; i + kTiles <= tiles->end; i += kTiles)
        Tiles<Q, kTiles>(query, stride, dim, *tiles, i, ask_ahead, ahead, out);
      for (; i < tiles->end; ++i) Tiles<Q, 1>(query, stride, dim, *tiles, i, ask_ahead, ahead, out);
    }
  };

  // Tiles [i, i + n) from `offset` on, `elements` of each, as floats one after the other in `memory`; *plain names them
  // by the same numbers.
  HF_NOINLINE static void Convert(const ChunkTiles& tiles, int i, int n, int offset, int elements,
                                  float* memory, ChunkTiles* plain) {
    plain->begin = i;
    plain->end = i + n;
    for (int t = i; t < i + n; ++t) {
      const std::byte* from = tiles.tile[t] + offset;
      plain->tile[t] = reinterpret_cast<const std::byte*>(memory);
      for (int at = 0; at < elements; at += 16 * kDimsPerLine) {
#pragma GCC unroll 4
        for (int j = 0; j < kDimsPerLine; ++j) {
          Store(memory + at + 16 * j, Format::Load(from + at * kElementBytes + j * kVectorBytes));
        }
      }
      memory += elements;
    }
  }

  static constexpr int ConvertedTiles(int tile_bytes) {
    const int tiles = kConvertedAtOnce / tile_bytes;
    return tiles < kMostTiles ? kMostTiles : tiles;
  }

  static void ScoreConverted(const float* query, int queries, int64_t stride, int dim,
                             const ChunkTiles& tiles, float* scores) {
    alignas(64) float memory[kConvertedBytes / sizeof(float)];
    ChunkTiles plain;
    const int step = ConvertedTiles(dim * Plain::kVectorBytes);
    for (int i = tiles.begin; i < tiles.end; i += step) {
      const int n = tiles.end - i < step ? tiles.end - i : step;
      Convert(tiles, i, n, 0, dim * kTileRows, memory, &plain);
      Ahead ahead(tiles, i, n, 0, dim * kVectorBytes);
      ForQueryBlocks<typename Plain::ScoreBlock, kScoreQueries>(queries, query, stride, dim, &plain, &ahead,
                                                                scores);
    }
  }

  static void Score(const std::byte* prepared, int queries, RowFormat format, const ChunkTiles& tiles,
                    float* scores) {
    const auto* query = reinterpret_cast<const float*>(prepared);
    const int64_t stride = PreparedBytes(format) / 4;
    if constexpr (kConverts) {
      // An even number of dims: whole lines.
      if (queries > kScoreQueries && format.dim % kDimsPerLine == 0 &&
          kMostTiles * format.dim * Plain::kVectorBytes <= kConvertedBytes) {
        return ScoreConverted(query, queries, stride, format.dim, tiles, scores);
      }
    }
    ForQueryBlocks<ScoreBlock, kScoreQueries>(queries, query, stride, format.dim, &tiles,
                                              static_cast<Ahead*>(nullptr), scores);
  }

  // V vectors [0, N) of the rows at `offset` of each tile, rows row_bytes apart. fresh: the sum starts here; ahead: as for
  // ScoreBlock.
  template <int N>
  struct AccumulateBlock {
    template <int Q>
    HF_NOINLINE static void Run(int first, const float* all_weights, int queries, const ChunkTiles* tiles,
                                int offset, int row_bytes, float* out, int64_t out_stride, bool fresh,
                                Ahead* ahead) {
      const float* weights = all_weights + first * kChunkRows;
      // The first block asks for the tiles ahead; where more follow, they ask for half of them, so that none
      // is idle.
      const bool ask_low = first == 0 && ahead == nullptr;
      const bool ask_high = (first > 0 || queries <= kValueQueries) && ahead == nullptr;
      F32x16 sum[Q][N];
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
        for (int j = 0; j < N; ++j) {
          sum[q][j] = fresh ? Zero() : HOLDFAST_ISA_NS::Load(out + (first + q) * out_stride + j * 16);
        }
      }
      for (int i = tiles->begin; i < tiles->end; ++i) {
        const std::byte* row = tiles->tile[i] + offset;
        const std::byte* next = TileAhead(*tiles, i, kTilesAhead) + offset;
        const float* weight = weights + i * kTileRows;
        for (int r = 0; r < kTileRows; ++r, row += row_bytes, next += row_bytes) {
          if (ahead != nullptr) ahead->Line();
          F32x16 v[N];
#pragma GCC unroll 16
          for (int j = 0; j < N; ++j) {
            v[j] = Format::Load(row + j * kVectorBytes);
            if (j % kDimsPerLine == 0 && (j < N / 2 ? ask_low : ask_high))
              PrefetchFar(next + j * kVectorBytes);
          }
#pragma GCC unroll 16
          for (int q = 0; q < Q; ++q) {
            const F32x16 w = Set(weight[q * kChunkRows + r]);
#pragma GCC unroll 16
            for (int j = 0; j < N; ++j) sum[q][j] = Fma(w, v[j], sum[q][j]);
          }
        }
      }
      // A sum of -0 (an underflow) would turn into +0 beside one more row of weight 0: make it +0 at once.
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
        for (int j = 0; j < N; ++j) Store(out + (first + q) * out_stride + j * 16, Add(sum[q][j], Zero()));
      }
    }
  };

  template <int N>
  HF_INLINE void AccumulateVectors(int n, const float* weights, int queries, const ChunkTiles& tiles,
                                   int offset, int row_bytes, float* out, int64_t out_stride, bool fresh,
                                   Ahead* ahead) {
    if (n >= N) {
      ForQueryBlocks<AccumulateBlock<N>, kValueQueries>(queries, weights, queries, &tiles, offset, row_bytes,
                                                        out, out_stride, fresh, ahead);
    } else if constexpr (N > 1) {
      AccumulateVectors<N - 1>(n, weights, queries, tiles, offset, row_bytes, out, out_stride, fresh, ahead);
    }
  }

  // One slice of V, `width` dims at `offset` of each tile.
  static void AccumulateSlice(const float* weights, int queries, int width, const ChunkTiles& tiles,
                              int offset, float* out, int64_t out_stride, bool fresh, Ahead* ahead) {
    for (int d = 0; d < width; d += 16 * kValueVectors) {
      AccumulateVectors<kValueVectors>((width - d) / 16, weights, queries, tiles, offset + d * kElementBytes,
                                       width * kElementBytes, out + d, out_stride, fresh, ahead);
    }
  }

  static void AccumulateConverted(const float* weights, int queries, int width, const ChunkTiles& tiles,
                                  int offset, float* out, int64_t out_stride) {
    alignas(64) float memory[kConvertedAtOnce / sizeof(float)];
    ChunkTiles plain;
    const int elements = width * kTileRows;
    const int step = kConvertedAtOnce / (elements * static_cast<int>(sizeof(float)));
    for (int i = tiles.begin; i < tiles.end; i += step) {
      const int n = tiles.end - i < step ? tiles.end - i : step;
      Convert(tiles, i, n, offset, elements, memory, &plain);
      Ahead ahead(tiles, i, n, offset, elements * kElementBytes);
      Plain::AccumulateSlice(weights, queries, width, plain, 0, out, out_stride, i == tiles.begin, &ahead);
    }
  }

  static void Accumulate(const float* weights, int queries, int dim, RowFormat /*row*/,
                         const ChunkTiles& tiles, float* out, int64_t out_stride) {
    for (int first = 0; first < dim; first += kSliceDims) {
      const int width = SliceWidth(dim, first);
      const int offset = first * kTileRows * kElementBytes;
      if constexpr (kConverts) {
        if (queries > kValueQueries) {
          AccumulateConverted(weights, queries, width, tiles, offset, out + first, out_stride);
          continue;
        }
      }
      AccumulateSlice(weights, queries, width, tiles, offset, out + first, out_stride, true, nullptr);
    }
  }

  // The K half as a latent row's V.
  struct LatentRows {
    HF_INLINE void Load4(const std::byte* tile, int d, RowFormat row, F32x16* x) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const int within = d + j < row.dim ? d + j : row.dim - 1;  // past the last dim: anything finite
        x[j] = Format::Load(tile + within * kVectorBytes);
      }
    }
    HF_INLINE F32x16 Weights(const float* weights, const std::byte* /*tile*/, RowFormat /*row*/) {
      return Load(weights);
    }
  };

  static void EncodeK(const float* row, RowFormat format, int slot, std::byte* tile) {
    const int dim = format.dim;
    alignas(64) Element lane[16];
    std::byte* to = tile + slot * kElementBytes;
    for (int d = 0; d < dim; d += 16) {
      const int n = dim - d < 16 ? dim - d : 16;
      Format::Store(lane, LoadFirst(row + d, n));
      for (int j = 0; j < n; ++j) __builtin_memcpy(to + (d + j) * kVectorBytes, &lane[j], sizeof(Element));
    }
  }

  static void EncodeV(const float* row, RowFormat format, int slot, std::byte* tile) {
    const int dim = format.dim;
    for (int d = 0; d < dim; d += 16) {
      const int n = dim - d < 16 ? dim - d : 16;
      Format::Store(tile + FloatVOffset(dim, slot, d) * kElementBytes, LoadFirst(row + d, n));
    }
  }

  static constexpr CodecKernels Table() {
    return {.key = {PreparedBytes, Prepare, Score},
            .value = {Accumulate},
            .latent_value = {AccumulateLatent<LatentRows>},
            .encode_k = EncodeK,
            .encode_v = EncodeV};
  }
};

}  // namespace holdfast::HOLDFAST_ISA_NS
