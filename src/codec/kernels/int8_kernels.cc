// The kernels of int8, per instruction set: integer dots over the codes as stored.
//
// Scores. A query is quantised to q = scale * (256 * hi + lo), hi and lo signed bytes: 15 to 16 bits, so that
// its own rounding is a hundredth of the codes'. K bytes are code + 128; starting each sum at -128 * sum(hi)
// (and lo) takes the 128 out exactly. Both sums stay below 2^24, so 256 * hi + lo is rounded once, alike on
// every instruction set; then the row's scale and the query's multiply it.
//
// Weighted sums. A row's scale is folded into its weight, w = p * scale, and the weights of a group of
// kGroupTiles tiles (64 absolute rows) are quantised to 16 bits, two unsigned bytes, relative to the group's
// largest. The group's dots are exact integers; one Fma per group, ascending, adds them to the output. A row
// of weight 0 adds 0 to the dots and nothing to the maximum, so leaving it out changes no bit.
#include "codec/int8_layout.h"
#include "codec/kernels/latent.h"
#include "codec/kernels/query_blocks.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

#if defined(HOLDFAST_ISA_AVX512)
constexpr int kScoreQueries = 6;
constexpr int kScoreAccumulators = 12;  // pairs
constexpr int kValueQueries = 3;
constexpr int kValueVectors = 4;
// Four queries at once leave registers for fewer vectors, but read every row once.
constexpr int kWideQueries = 4;
constexpr int kWideVectors = 2;
#else
constexpr int kScoreQueries = 2;
constexpr int kScoreAccumulators = 2;
constexpr int kValueQueries = 2;
constexpr int kValueVectors = 1;
constexpr int kWideQueries = kValueQueries;
constexpr int kWideVectors = kValueVectors;
#endif
constexpr int kMostScoreTiles = 4;
constexpr int kGroupTiles = 4;
constexpr int kBatch = 8;  // queries whose quantised weights are kept on the stack

constexpr float kQueryLevels = 127.0f * 256.0f;
constexpr float kWeightLevels = 65535.0f;

// ---- Scores

struct PreparedQuery {
  float scale;
  int32_t hi_start;  // -128 * sum(hi)
  int32_t lo_start;
  int32_t unused[13];
  // then per 4 dims: hi[4], lo[4]
};
static_assert(sizeof(PreparedQuery) == 64);

int64_t PreparedBytes(RowFormat format) {
  const int64_t vectors = PadToVector(format.dim) / 16;
  return 64 + (vectors * 32 + 63) / 64 * 64;
}

void Prepare(const float* query, RowFormat format, std::byte* prepared) {
  const int dim = format.dim;
  F32x16 largest = Zero();
  for (int d = 0; d < dim; d += 16) {
    largest = Max(largest, Abs(LoadFirst(query + d, dim - d < 16 ? dim - d : 16)));
  }
  const float absmax = HMax(largest);
  const bool nothing = absmax < kTiny;
  const F32x16 inverse = Set(nothing ? 0.0f : kQueryLevels / absmax);
  F32x16 hi_sum = Zero();
  F32x16 lo_sum = Zero();
  std::byte* planes = prepared + sizeof(PreparedQuery);
  for (int d = 0; d < dim; d += 16, planes += 32) {
    const F32x16 q = LoadFirst(query + d, dim - d < 16 ? dim - d : 16);
    const I32x16 level = RoundToI32(Mul(q, inverse));
    // Nearest multiple of 256, ties upwards, so that lo is -128..127.
    const F32x16 exact = ToF32(level);
    const I32x16 hi = RoundToI32(Mul(Add(exact, Set(0.5f)), Set(1.0f / 256.0f)));
    hi_sum = Add(hi_sum, ToF32(hi));
    lo_sum = Add(lo_sum, Sub(exact, Mul(ToF32(hi), Set(256.0f))));
    alignas(16) std::byte hi_bytes[16];
    alignas(16) std::byte lo_bytes[16];
    StoreBytes(hi_bytes, hi);
    StoreBytes(lo_bytes, level);
    for (int g = 0; g < 4; ++g) {
      __builtin_memcpy(planes + g * 8, hi_bytes + g * 4, 4);
      __builtin_memcpy(planes + g * 8 + 4, lo_bytes + g * 4, 4);
    }
  }
  PreparedQuery header = {};
  header.scale = nothing ? 0.0f : absmax / kQueryLevels;
  header.hi_start = -kInt8KBias * static_cast<int32_t>(HSum(hi_sum));
  header.lo_start = -kInt8KBias * static_cast<int32_t>(HSum(lo_sum));
  __builtin_memcpy(prepared, &header, sizeof header);
}

// Tiles [i, i + T) against Q queries.
template <int Q, int T>
HF_INLINE void ScoreTiles(const std::byte* prepared, int64_t stride, int dim, const ChunkTiles& tiles, int i,
                          bool ask_ahead, float* scores) {
  I32x16 hi[T][Q];
  I32x16 lo[T][Q];
  const std::byte* tile[T];
  const std::byte* next[T];
  PreparedQuery header[Q];
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
    __builtin_memcpy(&header[q], prepared + q * stride, 12);
#pragma GCC unroll 16
    for (int t = 0; t < T; ++t) {
      hi[t][q] = ISet(header[q].hi_start);
      lo[t][q] = ISet(header[q].lo_start);
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < T; ++t) {
    tile[t] = tiles.tile[i + t];
    next[t] = TileAhead(tiles, i + t, kGroupTiles);
  }
  const int groups = Int8KGroups(dim);
  const std::byte* planes = prepared + sizeof(PreparedQuery);
  AskInOrder<T, false> ask(next, groups * 64);
  for (int g = 0; g < groups; ++g) {
    if (ask_ahead) ask.Lines();
    B8x64 k[T];
#pragma GCC unroll 16
    for (int t = 0; t < T; ++t) {
      k[t] = BLoad(tile[t] + g * 64);
    }
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
      const B8x64 query_hi = BBroadcast4(planes + q * stride + g * 8);
      const B8x64 query_lo = BBroadcast4(planes + q * stride + g * 8 + 4);
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        hi[t][q] = DotU8I8(hi[t][q], k[t], query_hi);
        lo[t][q] = DotU8I8(lo[t][q], k[t], query_lo);
      }
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < T; ++t) {
    const F32x16 row_scale = LoadF16(tile[t] + groups * 64);
    if (ask_ahead) Prefetch(next[t] + groups * 64);
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
      const F32x16 dot = Fma(ToF32(hi[t][q]), Set(256.0f), ToF32(lo[t][q]));
      Store(scores + q * kChunkRows + (i + t) * kTileRows, Mul(Mul(dot, row_scale), Set(header[q].scale)));
    }
  }
}

struct ScoreBlock {
  template <int Q>
  HF_NOINLINE static void Run(int first, const std::byte* prepared, int64_t stride, int dim,
                              const ChunkTiles* tiles, float* scores) {
    constexpr int kFit = kScoreAccumulators / Q;
    constexpr int kTiles = kFit < 1 ? 1 : kFit > kMostScoreTiles ? kMostScoreTiles : kFit;
    const std::byte* queries = prepared + first * stride;
    float* out = scores + first * kChunkRows;
    int i = tiles->begin;
    for (; i + kTiles <= tiles->end; i += kTiles)
      ScoreTiles<Q, kTiles>(queries, stride, dim, *tiles, i, first == 0, out);
    for (; i < tiles->end; ++i) ScoreTiles<Q, 1>(queries, stride, dim, *tiles, i, first == 0, out);
  }
};

void Score(const std::byte* prepared, int queries, RowFormat format, const ChunkTiles& tiles, float* scores) {
  ForQueryBlocks<ScoreBlock, kScoreQueries>(queries, prepared, PreparedBytes(format), format.dim, &tiles,
                                            scores);
}

// ---- Weighted sums over V tiles

// One query's weights of a group. plane[0] holds the upper byte of each row's 16 bits, plane[1] the lower: byte
// 16*j + 4*t + i belongs to row 4*j + i of the group's tile t.
struct QuantisedWeights {
  alignas(64) std::byte plane[2][kGroupTiles * kTileRows];
  float scale;
};

HF_INLINE int GroupBegin(const ChunkTiles& tiles, int group) {
  const int first = group * kGroupTiles;
  return first > tiles.begin ? first : tiles.begin;
}
HF_INLINE int GroupEnd(const ChunkTiles& tiles, int group) {
  const int last = (group + 1) * kGroupTiles;
  return last < tiles.end ? last : tiles.end;
}

// A group's weights of all queries. Their largest ones are looked for together: one alone is a long chain.
void QuantiseGroup(const float* weights, int queries, const ChunkTiles& tiles, int code_bytes, int group,
                   QuantisedWeights* to) {
  const int begin = GroupBegin(tiles, group);
  const int end = GroupEnd(tiles, group);
  F32x16 row_scale[kGroupTiles];
#pragma GCC unroll 4
  for (int t = 0; t < kGroupTiles; ++t) {
    const int i = group * kGroupTiles + t;
    row_scale[t] = i >= begin && i < end ? LoadF16(tiles.tile[i] + code_bytes) : Zero();
  }
  alignas(64) float scaled[kBatch][kGroupTiles][kTileRows];
  F32x16 most[kBatch];
#pragma GCC unroll 8
  for (int q = 0; q < kBatch; ++q) {
    most[q] = Zero();
    if (q >= queries) continue;
#pragma GCC unroll 4
    for (int t = 0; t < kGroupTiles; ++t) {
      const int i = group * kGroupTiles + t;
      F32x16 w = Zero();
      if (i >= begin && i < end) w = Mul(Load(weights + q * kChunkRows + i * kTileRows), row_scale[t]);
      most[q] = Max(most[q], w);
      Store(scaled[q][t], w);
    }
  }
  const F32x16 largest = HMaxEach(most);
  const F32x16 tiny = Set(kTiny);
  alignas(64) float inverse[16];
  alignas(64) float scale[16];
  Store(inverse, SelectLess(largest, tiny, Zero(), Div(Set(kWeightLevels), Max(largest, tiny))));
  Store(scale, SelectLess(largest, tiny, Zero(), Div(largest, Set(kWeightLevels))));
  for (int q = 0; q < queries; ++q) {
    I32x16 level[kGroupTiles];
#pragma GCC unroll 4
    for (int t = 0; t < kGroupTiles; ++t) level[t] = RoundToI32(Mul(Load(scaled[q][t]), Set(inverse[q])));
    B8x64 upper;
    B8x64 lower;
    PackLevels16(level[0], level[1], level[2], level[3], &upper, &lower);
    BStore(to[q].plane[0], upper);
    BStore(to[q].plane[1], lower);
    to[q].scale = scale[q];
  }
}

// N vectors of one slice over the tiles [begin, end) of one group, added to out, for kMost queries at most.
template <int N, int kMost>
struct AccumulateBlock {
  template <int Q>
  HF_NOINLINE static void Run(int first, const QuantisedWeights* all, int queries, const ChunkTiles* tiles,
                              int group, int offset, int group_bytes, float* out, int64_t out_stride) {
    const QuantisedWeights* weights = all + first;
    // The first block asks for the tiles ahead; where more follow, they ask for half of them, so that none is
    // idle.
    const bool ask_low = first == 0;
    const bool ask_high = first > 0 || queries <= kMost;
    I32x16 upper[Q][N];
    I32x16 lower[Q][N];
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
      for (int j = 0; j < N; ++j) upper[q][j] = lower[q][j] = IZero();
    }
    const int end = GroupEnd(*tiles, group);
    for (int i = GroupBegin(*tiles, group); i < end; ++i) {
      const std::byte* codes = tiles->tile[i] + offset;
      const std::byte* next = TileAhead(*tiles, i, kGroupTiles) + offset;
      for (int r = 0; r < kTileRows; r += 4, codes += group_bytes, next += group_bytes) {
        B8x64 v[N];
#pragma GCC unroll 16
        for (int j = 0; j < N; ++j) {
          v[j] = BLoad(codes + j * 64);
          if (j < N / 2 ? ask_low : ask_high) Prefetch(next + j * 64);
        }
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
          const int at = r * 4 + i % kGroupTiles * 4;
          const B8x64 w_upper = BBroadcast4(weights[q].plane[0] + at);
          const B8x64 w_lower = BBroadcast4(weights[q].plane[1] + at);
#pragma GCC unroll 16
          for (int j = 0; j < N; ++j) {
            upper[q][j] = DotU8I8(upper[q][j], w_upper, v[j]);
            lower[q][j] = DotU8I8(lower[q][j], w_lower, v[j]);
          }
        }
      }
    }
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
      const F32x16 scale = Set(weights[q].scale);
#pragma GCC unroll 16
      for (int j = 0; j < N; ++j) {
        float* to = out + (first + q) * out_stride + j * 16;
        const F32x16 dot = Fma(ToF32(upper[q][j]), Set(256.0f), ToF32(lower[q][j]));
        // + 0: a sum of -0 (an underflow) must not differ from the same sum beside a group of weight 0.
        Store(to, Add(Fma(dot, scale, Load(to)), Zero()));
      }
    }
  }
};

template <int N, int kMost>
HF_INLINE void AccumulateVectors(int n, const QuantisedWeights* weights, int queries, const ChunkTiles& tiles,
                                 int group, int offset, int group_bytes, float* out, int64_t out_stride) {
  if (n >= N) {
    ForQueryBlocks<AccumulateBlock<N, kMost>, kMost>(queries, weights, queries, &tiles, group, offset,
                                                     group_bytes, out, out_stride);
  } else if constexpr (N > 1) {
    AccumulateVectors<N - 1, kMost>(n, weights, queries, tiles, group, offset, group_bytes, out, out_stride);
  }
}

template <int N, int kMost>
HF_INLINE void AccumulateGroup(const QuantisedWeights* weights, int queries, int dim, const ChunkTiles& tiles,
                               int group, float* out, int64_t out_stride) {
  for (int first = 0; first < dim; first += kSliceDims) {
    const int width = SliceWidth(dim, first);
    for (int d = 0; d < width; d += 16 * N) {
      const int offset = first * kTileRows + d * 4;
      AccumulateVectors<N, kMost>((width - d) / 16, weights, queries, tiles, group, offset, width * 4,
                                  out + first + d, out_stride);
    }
  }
}

void AccumulateBatch(const float* weights, int queries, int dim, const ChunkTiles& tiles, float* out,
                     int64_t out_stride) {
  QuantisedWeights quantised[kBatch];
  const QuantisedWeights* all = quantised;
  const int padded = PadToVector(dim);
  for (int q = 0; q < queries; ++q) {
    for (int d = 0; d < padded; d += 16) Store(out + q * out_stride + d, Zero());
  }
  const int groups = (tiles.end + kGroupTiles - 1) / kGroupTiles;
  for (int g = tiles.begin / kGroupTiles; g < groups; ++g) {
    QuantiseGroup(weights, queries, tiles, Int8VCodeBytes(dim), g, quantised);
    if (queries == kWideQueries) {
      AccumulateGroup<kWideVectors, kWideQueries>(all, queries, dim, tiles, g, out, out_stride);
    } else {
      AccumulateGroup<kValueVectors, kValueQueries>(all, queries, dim, tiles, g, out, out_stride);
    }
  }
}

void Accumulate(const float* weights, int queries, int dim, RowFormat /*row*/, const ChunkTiles& tiles,
                float* out, int64_t out_stride) {
  for (int q = 0; q < queries; q += kBatch) {
    const int batch = queries - q < kBatch ? queries - q : kBatch;
    AccumulateBatch(weights + q * kChunkRows, batch, dim, tiles, out + q * out_stride, out_stride);
  }
}

// ---- Weighted sums over K tiles

// A dot with a unit query byte takes one dim's code out of each 32-bit lane; the sums over rows are in float.
struct LatentRows {
  HF_INLINE void Load4(const std::byte* tile, int d, RowFormat /*row*/, F32x16* x) {
    static constexpr uint8_t kUnit[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    const B8x64 codes = BLoad(tile + d / 4 * 64);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) x[j] = ToF32(DotU8I8(ISet(-kInt8KBias), codes, BBroadcast4(kUnit[j])));
  }
  HF_INLINE F32x16 Weights(const float* weights, const std::byte* tile, RowFormat row) {
    return Mul(Load(weights), LoadF16(tile + Int8KCodeBytes(row.dim)));
  }
};

// ---- Encoding

struct RowScale {
  uint16_t bits;
  float inverse;  // 0 for a row of zeros
};

float F16Value(uint16_t bits) {
  alignas(32) uint16_t half[16] = {bits};
  alignas(64) float value[16];
  Store(value, LoadF16(half));
  return value[0];
}

RowScale ScaleOf(const float* row, int dim) {
  F32x16 largest = Zero();
  for (int d = 0; d < dim; d += 16) {
    largest = Max(largest, Abs(LoadFirst(row + d, dim - d < 16 ? dim - d : 16)));
  }
  const float absmax = HMax(largest);
  alignas(32) uint16_t half[16];
  StoreF16(half, Set(absmax / kInt8Codes));
  uint16_t bits = half[0];
  if (absmax > kInt8ClipLimit * F16Value(bits)) ++bits;
  return {bits, bits == 0 ? 0.0f : 1.0f / F16Value(bits)};
}

HF_INLINE I32x16 CodesOf(const float* row, int n, float inverse) {
  const F32x16 level = Mul(LoadFirst(row, n), Set(inverse));
  return RoundToI32(Max(Min(level, Set(kInt8Codes)), Set(-kInt8Codes)));
}

void EncodeK(const float* row, RowFormat format, int slot, std::byte* tile) {
  const int dim = format.dim;
  const RowScale scale = ScaleOf(row, dim);
  std::byte* to = tile + slot * 4;
  const int groups = Int8KGroups(dim);
  for (int g = 0; g < groups; g += 4) {
    const int d = g * 4;
    alignas(16) std::byte codes[16];
    StoreBytes(codes, IAdd(CodesOf(row + d, dim - d < 16 ? dim - d : 16, scale.inverse), ISet(kInt8KBias)));
    const int n = groups - g < 4 ? groups - g : 4;
    for (int j = 0; j < n; ++j) __builtin_memcpy(to + (g + j) * 64, codes + j * 4, 4);
  }
  __builtin_memcpy(tile + groups * 64 + slot * 2, &scale.bits, 2);
}

void EncodeV(const float* row, RowFormat format, int slot, std::byte* tile) {
  const int dim = format.dim;
  const RowScale scale = ScaleOf(row, dim);
  for (int d = 0; d < dim; d += 16) {
    alignas(16) std::byte codes[16];
    StoreBytes(codes, CodesOf(row + d, dim - d < 16 ? dim - d : 16, scale.inverse));
    std::byte* to = tile + Int8VOffset(dim, slot, d);
    for (int j = 0; j < 16; ++j) to[j * 4] = codes[j];
  }
  __builtin_memcpy(tile + Int8VCodeBytes(dim) + slot * 2, &scale.bits, 2);
}

}  // namespace

extern const CodecKernels kInt8Kernels;
const CodecKernels kInt8Kernels = {.key = {PreparedBytes, Prepare, Score},
                                   .value = {Accumulate},
                                   .latent_value = {AccumulateLatent<LatentRows>},
                                   .encode_k = EncodeK,
                                   .encode_v = EncodeV};

}  // namespace holdfast::HOLDFAST_ISA_NS
