// Weighted sums over packed V tiles (packed_layout.h), for the Format of packed_format.h.
//
// A row's scale is folded into its weight, w = p * scale, for each group of dims apart, and the weights of a
// stretch of 64 absolute rows (4 tiles) are quantised to unsigned levels relative to the stretch's largest.
// The stretch's dots are exact integers; one Fma a stretch, ascending, adds them to the output. Two planes: 16
// bits. One plane: 8 bits, and what rounding leaves of a row's weight is carried to the row 16 further on (the
// same lane of the next tile), so that many small weights beside a large one are not lost. Lanes start with
// carries spread over a level, so that their last ones, which are lost, cancel. A weight of exactly 0 stays level
// 0 and passes the carry on, so leaving its row out changes no bit.
//
// Biases are added exactly: the sum of p * bias, in floats, lane by lane over the chunk, summed at its end.
// Included by kernel files only.
#pragma once

#include "codec/kernels/packed_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

#if defined(HOLDFAST_ISA_AVX512)
inline constexpr int kPackedValueAccumulators = 16;
inline constexpr int kPackedValueVectors = 4;
#else
inline constexpr int kPackedValueAccumulators = 2;
inline constexpr int kPackedValueVectors = 1;
#endif
inline constexpr int kStretchTiles = 4;
inline constexpr int kPackedBatch = 8;  // queries whose quantised weights are kept on the stack
inline constexpr int kMostPackedGroups = kMaxDim / kVectorDims;

// With room for a carry of half a level below 255.
inline constexpr float kOnePlaneWeightLevels = 254.0f;
inline constexpr float kTwoPlaneWeightLevels = 65535.0f;
inline constexpr float kTinyWeight = 1e-30f;  // below it a stretch's largest weight counts as 0

// Within half a level, and their sum is 0.
alignas(64) inline constexpr float kFirstCarry[16] = {
    -15 / 32.0f, -1 / 32.0f, 13 / 32.0f, -5 / 32.0f, 9 / 32.0f,  -9 / 32.0f, 5 / 32.0f,   -13 / 32.0f,
    1 / 32.0f,   15 / 32.0f, -3 / 32.0f, 11 / 32.0f, -7 / 32.0f, 7 / 32.0f,  -11 / 32.0f, 3 / 32.0f};

// The weights of a stretch. Byte 16*j + 4*t + i of a plane belongs to row 4*j + i of tile t.
template <int kPlanes>
struct StretchWeights {
  alignas(64) std::byte level[kPlanes][kPackedBatch][64];  // [0] the upper byte of two
  float scale[kPackedBatch];
};

// The tiles of a stretch that are given, as indices into the chunk's.
struct Stretch {
  int first;  // a multiple of kStretchTiles
  int begin;
  int end;
};

template <typename Format>
struct PackedValues {
  static constexpr PackedShape kShape = Format::kShape;
  static constexpr int kBits = kShape.bits;
  static constexpr int kPlanes = Format::kPlanes;
  static constexpr float kLevels = kPlanes == 1 ? kOnePlaneWeightLevels : kTwoPlaneWeightLevels;
  // Levels without a table are read from the top of a byte.
  static constexpr float kLevelUnit = Format::kTable ? 1.0f : 1.0f / static_cast<float>(1 << (8 - kBits));
  static constexpr int kTilesAhead = kBits >= 6 ? 4 : 8;
  // Queries of a block of N columns of dims.
  static constexpr int MostQueries(int n) {
    const int fit = kPackedValueAccumulators / kPlanes / n;
    return fit < kPackedBatch / kPlanes ? fit : kPackedBatch / kPlanes;
  }
  using P = PackedVectors<kBits>;
  using Weights = StretchWeights<kPlanes>;

  // ---- Weights

  // scaled: the weights of four tiles, times their scales.
  HF_INLINE void QuantiseScaled(const F32x16 (&scaled)[kStretchTiles], int q, Weights* to) {
    const float most = HMax(Max(Max(scaled[0], scaled[1]), Max(scaled[2], scaled[3])));
    const bool nothing = most < kTinyWeight;
    to->scale[q] = nothing ? 0.0f : most * (kLevelUnit / kLevels);
    const F32x16 inverse = Set(nothing ? 0.0f : kLevels / most);
    I32x16 level[kStretchTiles];
    if constexpr (kPlanes == 1) {
      F32x16 carry = Load(kFirstCarry);
#pragma GCC unroll 4
      for (int t = 0; t < kStretchTiles; ++t) {
        const F32x16 wanted = Fma(scaled[t], inverse, carry);
        level[t] = RoundToI32(wanted);
        carry = Fraction(wanted);
      }
      BStore(to->level[0][q], PackLevels(level[0], level[1], level[2], level[3]));
    } else {
#pragma GCC unroll 4
      for (int t = 0; t < kStretchTiles; ++t) level[t] = RoundToI32(Mul(scaled[t], inverse));
      B8x64 upper;
      B8x64 lower;
      PackLevels16(level[0], level[1], level[2], level[3], &upper, &lower);
      BStore(to->level[0][q], upper);
      BStore(to->level[kPlanes - 1][q], lower);
    }
  }

  // A group of dims of a stretch for all queries. bias_sums: [queries][16], added to where the format has
  // biases.
  template <bool kWhole>
  HF_INLINE void Quantise(const float* weights, int queries, const ChunkTiles& tiles, const Stretch& stretch,
                          int scale_at, Weights* to, float* bias_sums, int64_t bias_stride) {
    PackedTerms terms[kStretchTiles];
    bool given[kStretchTiles];
#pragma GCC unroll 4
    for (int t = 0; t < kStretchTiles; ++t) {
      const int i = stretch.first + t;
      given[t] = kWhole || (i >= stretch.begin && i < stretch.end);
      terms[t] = {Zero(), Zero()};
      if (!given[t]) continue;
      const std::byte* at = tiles.tile[i] + scale_at;
      terms[t] = Format::Terms(LoadF16(at), kShape.bias ? LoadF16(at + kPackedScaleBytes) : Zero());
      Prefetch(TileAhead(tiles, i, kTilesAhead) + scale_at);
    }
    for (int q = 0; q < queries; ++q) {
      const float* w = weights + q * kChunkRows + stretch.first * kTileRows;
      F32x16 scaled[kStretchTiles];
      F32x16 bias = Zero();
#pragma GCC unroll 4
      for (int t = 0; t < kStretchTiles; ++t) {
        scaled[t] = Zero();
        if (!given[t]) continue;
        const F32x16 p = Load(w + t * kTileRows);
        scaled[t] = Mul(p, terms[t].scale);
        if (Format::kValueBias) bias = Fma(p, terms[t].bias, bias);
      }
      if constexpr (Format::kValueBias) {
        float* sum = bias_sums + q * bias_stride;
        Store(sum, Add(Load(sum), bias));
      }
      QuantiseScaled(scaled, q, to);
    }
  }

  // ---- Dots

  // N columns of the given tiles of a stretch, added to out.
  template <int N>
  struct Block {
    template <int Q, int quad>
    HF_INLINE void Quads(const std::byte* upper_at, const B8x64* lower, B8x64* upper, bool odd_column,
                         const typename Format::Levels& levels, const std::byte* hi_level,
                         const std::byte* lo_level, I32x16 (&hi)[Q][N], I32x16 (&lo)[Q][N]) {
      B8x64 v[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const int vector = n * P::kColumnVectors + quad / P::kUpperQuads;
        if constexpr (quad % P::kUpperQuads == 0) upper[n] = BLoad(upper_at + vector * 64);
        const bool odd = N == 1 ? odd_column : n % 2 == 1;
        v[n] = ValueCodes<kBits, Format::kTable, quad>(upper[n], lower[n], odd);
        if constexpr (Format::kTable) v[n] = levels.Value(v[n]);
      }
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
        const B8x64 w_hi = BBroadcast4(hi_level + q * 64 + quad * 16);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) hi[q][n] = DotU8I8(hi[q][n], w_hi, v[n]);
        if constexpr (kPlanes == 2) {
          const B8x64 w_lo = BBroadcast4(lo_level + q * 64 + quad * 16);
#pragma GCC unroll 4
          for (int n = 0; n < N; ++n) lo[q][n] = DotU8I8(lo[q][n], w_lo, v[n]);
        }
      }
      if constexpr (quad < 3) {
        Quads<Q, quad + 1>(upper_at, lower, upper, odd_column, levels, hi_level, lo_level, hi, lo);
      }
    }

    template <int Q>
    HF_NOINLINE static void Run(int first, const Weights* weights, const ChunkTiles* tiles,
                                const Stretch* stretch, int column, RowFormat format, float* out,
                                int64_t out_stride) {
      const typename Format::Levels levels(format);
      const int upper_offset = VColumnAt(P::kUpperBits, column);
      const int lower_offset =
          P::kHasLower ? VLowerPlaneAt(kBits, format.dim) + VColumnAt(P::kLowerBits, column) : 0;
      const bool ask = first == 0;
      I32x16 hi[Q][N];
      I32x16 lo[Q][N];
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) hi[q][n] = lo[q][n] = IZero();
      }
      for (int i = stretch->begin; i < stretch->end; ++i) {
        const std::byte* upper_at = tiles->tile[i] + upper_offset;
        const std::byte* lower_at = tiles->tile[i] + lower_offset;
        B8x64 upper[N];
        B8x64 lower[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
          lower[n] =
              P::kHasLower ? BLoad(lower_at + VColumnAt(P::kHasLower ? P::kLowerBits : 8, n)) : B8x64{};
        }
        if (ask) {
          const std::byte* next = TileAhead(*tiles, i, kTilesAhead);
#pragma GCC unroll 16
          for (int j = 0; j < N * P::kColumnVectors; ++j) Prefetch(next + upper_offset + j * 64);
          if constexpr (P::kHasLower) {
#pragma GCC unroll 4
            for (int n = 0; n < N; n += 2 / P::kLowerBits) {
              Prefetch(next + lower_offset + VColumnAt(P::kLowerBits, n));
            }
          }
        }
        const int at = (i - stretch->first) * 4;
        Quads<Q, 0>(upper_at, lower, upper, column % 2 == 1, levels, weights->level[0][first] + at,
                    weights->level[kPlanes - 1][first] + at, hi, lo);
      }
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
        const F32x16 scale = Set(weights->scale[first + q]);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
          float* to = out + (first + q) * out_stride + n * 16;
          F32x16 dot = ToF32(hi[q][n]);
          if constexpr (kPlanes == 2) dot = Fma(dot, Set(256.0f), ToF32(lo[q][n]));
          Store(to, Fma(dot, scale, Load(to)));
        }
      }
    }
  };

  // Columns [column, column + n) of a stretch.
  template <int N>
  HF_INLINE void Columns(int column, int n, int queries, const Weights& weights, const ChunkTiles& tiles,
                         const Stretch& stretch, RowFormat format, float* out, int64_t out_stride) {
    for (; n >= N; n -= N, column += N) {
      ForQueryBlocks<Block<N>, MostQueries(N)>(queries, &weights, &tiles, &stretch, column, format,
                                               out + column * 16, out_stride);
    }
    if constexpr (N > 1) {
      if (n > 0) Columns<N / 2>(column, n, queries, weights, tiles, stretch, format, out, out_stride);
    }
  }

  static void AccumulateBatch(const float* weights, int queries, int dim, RowFormat format,
                              const ChunkTiles& tiles, float* out, int64_t out_stride) {
    Weights quantised;
    alignas(64) float bias_sums[Format::kValueBias ? kPackedBatch * kMostPackedGroups * 16 : 16];
    const int groups = PackedGroups(kShape, format);
    const int columns = VColumns(dim);
    const int group_columns = groups == 1 ? columns : PackedGroupDims(kShape, format) / kVectorDims;
    const int64_t bias_stride = groups * 16;
    const int scales_at = VScalesAt(kBits, dim);
    for (int q = 0; q < queries; ++q) {
      for (int c = 0; c < columns; ++c) Store(out + q * out_stride + c * 16, Zero());
      if (!Format::kValueBias) continue;
      for (int g = 0; g < groups; ++g) Store(bias_sums + q * bias_stride + g * 16, Zero());
    }
    for (int first = tiles.begin / kStretchTiles * kStretchTiles; first < tiles.end; first += kStretchTiles) {
      Stretch stretch = {first, first, first + kStretchTiles};
      if (stretch.begin < tiles.begin) stretch.begin = tiles.begin;
      if (stretch.end > tiles.end) stretch.end = tiles.end;
      const bool whole = stretch.end - stretch.begin == kStretchTiles;
      for (int g = 0; g < groups; ++g) {
        const int scale_at = scales_at + g * PackedGroupBytes(kShape);
        if (whole) {
          Quantise<true>(weights, queries, tiles, stretch, scale_at, &quantised, bias_sums + g * 16,
                         bias_stride);
        } else {
          Quantise<false>(weights, queries, tiles, stretch, scale_at, &quantised, bias_sums + g * 16,
                          bias_stride);
        }
        const int column = g * group_columns;
        const int n = columns - column < group_columns ? columns - column : group_columns;
        if (queries <= MostQueries(kPackedValueVectors)) {
          Columns<kPackedValueVectors>(column, n, queries, quantised, tiles, stretch, format, out,
                                       out_stride);
        } else {
          Columns<(kPackedValueVectors > 1 ? 2 : 1)>(column, n, queries, quantised, tiles, stretch, format,
                                                     out, out_stride);
        }
      }
    }
    if constexpr (Format::kValueBias)
      AddBiases(bias_sums, queries, columns, group_columns, groups, out, out_stride);
  }

  // out += each group's sum of weight * bias, in all of its dims.
  HF_INLINE void AddBiases(const float* bias_sums, int queries, int columns, int group_columns, int groups,
                           float* out, int64_t out_stride) {
    for (int q = 0; q < queries; ++q) {
      float* to = out + q * out_stride;
      for (int c = 0, g = 0; g < groups; ++g) {
        // + 0: a sum of -0 (an underflow) must not differ from the same sum beside rows of weight 0.
        const F32x16 bias = Set(HSum(Load(bias_sums + (q * groups + g) * 16)) + 0.0f);
        const int end = (g + 1) * group_columns < columns ? (g + 1) * group_columns : columns;
        for (; c < end; ++c) Store(to + c * 16, Add(Load(to + c * 16), bias));
      }
    }
  }

  static void Accumulate(const float* weights, int queries, int dim, RowFormat row, const ChunkTiles& tiles,
                         float* out, int64_t out_stride) {
    for (int q = 0; q < queries; q += kPackedBatch) {
      const int batch = queries - q < kPackedBatch ? queries - q : kPackedBatch;
      AccumulateBatch(weights + q * kChunkRows, batch, dim, RowFormat(dim, row.group), tiles,
                      out + q * out_stride, out_stride);
    }
  }
};

}  // namespace holdfast::HOLDFAST_ISA_NS
