// Scores over packed K tiles (packed_layout.h), for the Format of packed_format.h.
//
// A query is quantised so that its dots with the levels are integers, with one scale. Two planes: q = scale *
// (256 * hi + lo), as int8_kernels.cc does. One plane: signed bytes. (A scale for each group of dims costs one more
// multiplication a group, row and query, and gains little: queries of rotated rows have no large channels, and
// 8 bits of the largest stay below the error of 4-bit keys elsewhere.) The zero point is taken out exactly by what
// a sum starts at; where there is a bias the levels count from their middle too (KeyTerms moves the bias there), so
// that the query's rounding meets small numbers.
//
// A score is query scale * (the sum over groups, ascending, of row scale * dot + row bias * (sum of the query /
// query scale)): one order, whatever the blocking.
// Included by kernel files only.
#pragma once

#include "codec/kernels/packed_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

#if defined(HOLDFAST_ISA_AVX512)
inline constexpr int kPackedScoreQueries = 8;
inline constexpr int kPackedScoreAccumulators = 16;
#else
inline constexpr int kPackedScoreQueries = 2;
inline constexpr int kPackedScoreAccumulators = 2;
#endif
inline constexpr int kPackedScoreTiles = 4;  // side by side, at most

inline constexpr float kOnePlaneQueryLevels = 127.0f;
inline constexpr float kTwoPlaneQueryLevels = 127.0f * 256.0f;

// What a query's group of dims brings to a score.
struct QueryGroup {
  int32_t start[2];  // -zero * sum of the levels; two planes: of hi and of lo
  float sum;         // of the values, over scale; 0 without a bias
  float scale;       // of the levels, the same in every group
};
static_assert(sizeof(QueryGroup) == 16);

template <typename Format>
struct PackedKeys {
  static constexpr PackedShape kShape = Format::kShape;
  static constexpr int kBits = kShape.bits;
  static constexpr int kPlanes = Format::kPlanes;
  static constexpr int kQuadBytes = kQuadDims * kPlanes;  // of a prepared query
  using P = PackedVectors<kBits>;

  // Prepared: QueryGroup[groups], then from the next multiple of 64 per quad: hi[4], lo[4], or levels[4].
  HF_INLINE int64_t LevelsAt(RowFormat format) { return (PackedGroups(kShape, format) * 16 + 63) / 64 * 64; }
  static int64_t PreparedBytes(RowFormat format) {
    const int64_t levels = (KPaddedDims(kBits, format.dim) + 15) / 16 * 16 * kPlanes;
    return LevelsAt(format) + (levels + 63) / 64 * 64;
  }

  // Levels of 16 values; adds to the sums.
  HF_INLINE void PrepareVector(F32x16 q, F32x16 inverse, std::byte* to, F32x16* hi_sum, F32x16* lo_sum) {
    alignas(16) std::byte hi_bytes[16];
    alignas(16) std::byte lo_bytes[16];
    const I32x16 level = RoundToI32(Mul(q, inverse));
    if constexpr (kPlanes == 1) {
      *hi_sum = Add(*hi_sum, ToF32(level));
      StoreBytes(to, level);
    } else {
      // Nearest multiple of 256, ties upwards, so that lo is -128..127.
      const F32x16 exact = ToF32(level);
      const I32x16 hi = RoundToI32(Mul(Add(exact, Set(0.5f)), Set(1.0f / 256.0f)));
      *hi_sum = Add(*hi_sum, ToF32(hi));
      *lo_sum = Add(*lo_sum, Sub(exact, Mul(ToF32(hi), Set(256.0f))));
      StoreBytes(hi_bytes, hi);
      StoreBytes(lo_bytes, level);
      for (int g = 0; g < 4; ++g) {
        __builtin_memcpy(to + g * 8, hi_bytes + g * 4, 4);
        __builtin_memcpy(to + g * 8 + 4, lo_bytes + g * 4, 4);
      }
    }
  }

  static void Prepare(const float* query, RowFormat format, std::byte* prepared) {
    constexpr float kLevels = kPlanes == 1 ? kOnePlaneQueryLevels : kTwoPlaneQueryLevels;
    const int dim = format.dim;
    const int group = PackedGroupDims(kShape, format);
    const int groups = PackedGroups(kShape, format);
    std::byte* levels = prepared + LevelsAt(format);
    const float absmax = LargestMagnitude(query, dim);
    const bool nothing = absmax < kTiny;
    const float scale = nothing ? 0.0f : absmax / kLevels;
    const F32x16 inverse = Set(nothing ? 0.0f : kLevels / absmax);
    for (int g = 0; g < groups; ++g) {
      const int begin = g * group;
      const int end = begin + group < dim ? begin + group : dim;
      F32x16 hi_sum = Zero();
      F32x16 lo_sum = Zero();
      F32x16 value_sum = Zero();
      for (int d = begin; d < end; d += 16) {
        const F32x16 q = LoadRowDims(query + d, end - d);
        value_sum = Add(value_sum, q);
        PrepareVector(q, inverse, levels + d * kPlanes, &hi_sum, &lo_sum);
      }
      QueryGroup to = {};
      to.start[0] = -Format::kZero * static_cast<int32_t>(HSum(hi_sum));
      to.start[1] = -Format::kZero * static_cast<int32_t>(HSum(lo_sum));
      to.sum = kShape.bias && !nothing ? HSum(value_sum) / scale : 0.0f;
      to.scale = scale;
      __builtin_memcpy(prepared + g * 16, &to, sizeof to);
    }
    for (int64_t at = LevelsAt(format) + (dim + 15) / 16 * 16 * kPlanes, end = PreparedBytes(format);
         at < end; ++at) {
      prepared[at] = std::byte{0};
    }
  }

  struct ScoreBlock {
    // Quads [quad, end of the unit) of T tiles against Q queries.
    template <int Q, int T, int quad>
    HF_INLINE void Quads(const std::byte* const* upper_at, const B8x64* lower, B8x64* upper,
                         const typename Format::Levels& levels, const std::byte* planes, int64_t stride,
                         I32x16 (&hi)[T][Q], I32x16 (&lo)[T][Q]) {
      B8x64 k[T];
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        if constexpr (quad % P::kUpperQuads == 0) upper[t] = BLoad(upper_at[t] + quad / P::kUpperQuads * 64);
        k[t] = levels.template Key<quad>(upper[t], lower[t]);
      }
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
        const std::byte* at = planes + q * stride + quad * kQuadBytes;
        const B8x64 query_hi = BBroadcast4(at);
#pragma GCC unroll 16
        for (int t = 0; t < T; ++t) hi[t][q] = Dot(hi[t][q], k[t], query_hi);
        if constexpr (kPlanes == 2) {
          const B8x64 query_lo = BBroadcast4(at + kQuadDims);
#pragma GCC unroll 16
          for (int t = 0; t < T; ++t) lo[t][q] = Dot(lo[t][q], k[t], query_lo);
        }
      }
      if constexpr (quad + 1 < P::kUnitQuads) {
        Quads<Q, T, quad + 1>(upper_at, lower, upper, levels, planes, stride, hi, lo);
      }
    }

    HF_INLINE I32x16 Dot(I32x16 acc, B8x64 k, B8x64 query) {
      return kBits < 8 && !Format::kTable ? DotU7I8(acc, k, query) : DotU8I8(acc, k, query);
    }

    // sum += what a group of dims adds to a score of 16 rows.
    HF_INLINE F32x16 AddGroup(I32x16 hi, I32x16 lo, const QueryGroup& query, F32x16 scale, F32x16 bias,
                              F32x16 sum) {
      const F32x16 dot = kPlanes == 2 ? Fma(ToF32(hi), Set(256.0f), ToF32(lo)) : ToF32(hi);
      sum = Fma(dot, scale, sum);
      return kShape.bias ? Fma(bias, Set(query.sum), sum) : sum;
    }

    // Tiles [i, i + T) against Q queries.
    template <int Q, int T>
    HF_INLINE void Tiles(const std::byte* prepared, int64_t stride, RowFormat format, const ChunkTiles& tiles,
                         int i, bool ask_ahead, float* scores) {
      const typename Format::Levels levels(format);
      const int units = KUnits(kBits, format.dim);
      const int groups = PackedGroups(kShape, format);
      const int group_units = groups == 1 ? units : PackedGroupDims(kShape, format) / KUnitDims(kBits);
      const int lower_at = KLowerPlaneAt(kBits, format.dim);
      const int scales_at = KScalesAt(kBits, format.dim);
      const std::byte* tile[T];
      const std::byte* next[T];
      F32x16 sum[T][Q];
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        tile[t] = tiles.tile[i + t];
        next[t] = TileAhead(tiles, i + t, kPackedTilesAhead);
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) sum[t][q] = Zero();
      }
      AskInOrder<T, AskFar(kBits)> ask(next, scales_at + groups * PackedGroupBytes(kShape));
      const std::byte* planes = prepared + LevelsAt(format);
      for (int g = 0, u = 0; g < groups; ++g) {
        I32x16 hi[T][Q];
        I32x16 lo[T][Q];
        const auto* query_group = reinterpret_cast<const QueryGroup*>(prepared + g * 16);
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
          const auto* of = reinterpret_cast<const QueryGroup*>(
              reinterpret_cast<const std::byte*>(query_group) + q * stride);
#pragma GCC unroll 16
          for (int t = 0; t < T; ++t) {
            hi[t][q] = Format::kZero == 0 ? IZero() : ISet(of->start[0]);
            lo[t][q] = Format::kZero == 0 || kPlanes == 1 ? IZero() : ISet(of->start[1]);
          }
        }
        const int end = g + 1 < groups ? u + group_units : units;
        for (; u < end; ++u) {
          const std::byte* upper_at[T];
          B8x64 lower[T];
          B8x64 upper[T];
#pragma GCC unroll 16
          for (int j = 0; j < P::kUnitLines; ++j) {
            if (ask_ahead) ask.Lines();
          }
#pragma GCC unroll 16
          for (int t = 0; t < T; ++t) {
            upper_at[t] = tile[t] + u * P::kUnitVectors * 64;
            lower[t] = P::kHasLower ? BLoad(tile[t] + lower_at + u * 64) : B8x64{};
          }
          Quads<Q, T, 0>(upper_at, lower, upper, levels, planes + u * P::kUnitQuads * kQuadBytes, stride, hi,
                         lo);
        }
        if (ask_ahead) ask.Lines();
#pragma GCC unroll 16
        for (int t = 0; t < T; ++t) {
          const std::byte* at = tile[t] + scales_at + g * PackedGroupBytes(kShape);
          F32x16 scale = LoadF16(at);
          F32x16 bias = Zero();
          if constexpr (kShape.bias) {
            const PackedTerms terms = Format::KeyTerms(scale, LoadF16(at + kPackedScaleBytes));
            scale = terms.scale;
            bias = terms.bias;
          }
#pragma GCC unroll 16
          for (int q = 0; q < Q; ++q) {
            const auto* of = reinterpret_cast<const QueryGroup*>(
                reinterpret_cast<const std::byte*>(query_group) + q * stride);
            sum[t][q] = AddGroup(hi[t][q], lo[t][q], *of, scale, bias, sum[t][q]);
          }
        }
      }
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
          const float scale = reinterpret_cast<const QueryGroup*>(prepared + q * stride)->scale;
          Store(scores + q * kChunkRows + (i + t) * kTileRows, Mul(sum[t][q], Set(scale)));
        }
      }
    }

    template <int Q>
    HF_NOINLINE static void Run(int first, const std::byte* prepared, int64_t stride, RowFormat format,
                                const ChunkTiles* tiles, float* scores) {
      constexpr int kFit = kPackedScoreAccumulators / (Q * kPlanes);
      constexpr int kTiles = kFit < 1 ? 1 : kFit > kPackedScoreTiles ? kPackedScoreTiles : kFit;
      const std::byte* queries = prepared + first * stride;
      float* out = scores + first * kChunkRows;
      int i = tiles->begin;
      for (; i + kTiles <= tiles->end; i += kTiles)
        Tiles<Q, kTiles>(queries, stride, format, *tiles, i, first == 0, out);
      for (; i < tiles->end; ++i) Tiles<Q, 1>(queries, stride, format, *tiles, i, first == 0, out);
    }
  };

  static void Score(const std::byte* prepared, int queries, RowFormat format, const ChunkTiles& tiles,
                    float* scores) {
    ForQueryBlocks<ScoreBlock, kPackedScoreQueries>(queries, prepared, PreparedBytes(format), format, &tiles,
                                                    scores);
  }

  // The K half as a latent row's V: levels are taken out of their lanes by a dot with a unit byte.
  struct LatentRows {
    template <int quad>
    HF_INLINE B8x64 QuadLevels(const typename Format::Levels& levels, const std::byte* upper, B8x64 lower,
                               int which) {
      if constexpr (quad + 1 < P::kUnitQuads) {
        if (which != quad) return QuadLevels<quad + 1>(levels, upper, lower, which);
      }
      return levels.template Key<quad>(BLoad(upper + quad / P::kUpperQuads * 64), lower);
    }

    HF_INLINE void Load4(const std::byte* tile, int d, RowFormat row, F32x16* x) {
      static constexpr uint8_t kUnit[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
      const typename Format::Levels levels(row);
      const int unit = d / KUnitDims(kBits);
      const B8x64 lower = P::kHasLower ? BLoad(tile + KLowerPlaneAt(kBits, row.dim) + unit * 64) : B8x64{};
      const B8x64 quad =
          QuadLevels<0>(levels, tile + unit * P::kUnitVectors * 64, lower, d % KUnitDims(kBits) / kQuadDims);
      const int group = d / PackedGroupDims(kShape, row);
      const std::byte* at = tile + KScalesAt(kBits, row.dim) + group * PackedGroupBytes(kShape);
      PackedTerms terms = {LoadF16(at), Zero()};
      if constexpr (kShape.bias) terms = Format::KeyTerms(terms.scale, LoadF16(at + kPackedScaleBytes));
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const F32x16 level = ToF32(DotU8I8(ISet(-Format::kZero), quad, BBroadcast4(kUnit[j])));
        x[j] = kShape.bias ? Fma(level, terms.scale, terms.bias) : Mul(level, terms.scale);
      }
    }
    HF_INLINE F32x16 Weights(const float* weights, const std::byte* /*tile*/, RowFormat /*row*/) {
      return Load(weights);
    }
  };
};

}  // namespace holdfast::HOLDFAST_ISA_NS
