// Weighted sums over packed V tiles (packed_layout.h), for the Format of packed_format.h.
//
// A row's scale is folded into its weight, w = p * scale, for each group of dims apart, and the weights of a
// stretch of 128 absolute rows (8 tiles) are quantised to unsigned levels relative to the stretch's largest.
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
inline constexpr int kStretchTiles = 8;
inline constexpr int kPackTiles = 4;    // of which the levels make a vector
inline constexpr int kPackedBatch = 8;  // queries whose quantised weights are kept on the stack
inline constexpr int kMostPackedGroups = kMaxDim / kVectorDims;

// With room for a carry of half a level below 255.
inline constexpr float kOnePlaneWeightLevels = 254.0f;
inline constexpr float kTwoPlaneWeightLevels = 65535.0f;

// Where the lanes of the first and of the second half of a stretch start: within half a level, their sum 0.
alignas(64) inline constexpr float kFirstCarry[2][16] = {
    {-15 / 32.0f, -1 / 32.0f, 13 / 32.0f, -5 / 32.0f, 9 / 32.0f, -9 / 32.0f, 5 / 32.0f, -13 / 32.0f,
     1 / 32.0f, 15 / 32.0f, -3 / 32.0f, 11 / 32.0f, -7 / 32.0f, 7 / 32.0f, -11 / 32.0f, 3 / 32.0f},
    {15 / 32.0f, 1 / 32.0f, -13 / 32.0f, 5 / 32.0f, -9 / 32.0f, 9 / 32.0f, -5 / 32.0f, 13 / 32.0f, -1 / 32.0f,
     -15 / 32.0f, 3 / 32.0f, -11 / 32.0f, 7 / 32.0f, -7 / 32.0f, 11 / 32.0f, -3 / 32.0f}};

inline constexpr int kPacks = kStretchTiles / kPackTiles;

// The weights of a round: of some groups of dims, for each query, in a stretch. Slot g * queries + q; byte 16*j +
// 4*t + i of pack n of a plane belongs to row 4*j + i of tile 4*n + t.
template <int kPlanes>
struct RoundWeights {
  alignas(64) std::byte level[kPlanes][kPackedBatch][kPacks][64];  // [0] the upper byte of two
  alignas(64) float scaled[kPackedBatch][kStretchTiles][16];       // not yet quantised
  alignas(64) float most[kPackedBatch][16];                        // the largest of scaled, lane by lane
  alignas(64) float inverse[16];                                   // of a level, by slot
  alignas(64) float scale[16];
  alignas(64) float bias[16];  // of the chunk so far: weight * bias, by slot; set in its last stretch
};

// Tiles whose weights are quantised together.
struct Stretch {
  int row;    // its first of the chunk
  int begin;  // its tiles that are given
  int end;
  bool first;  // of the chunk's stretches
  bool last;
  const std::byte* tile[kStretchTiles];
  const std::byte* ahead[kStretchTiles];  // what to ask for beside each

  HF_INLINE Stretch Of(const ChunkTiles& tiles, int number, int tiles_ahead) {
    const int at = number * kStretchTiles;
    Stretch s;
    s.row = at * kTileRows;
    s.begin = tiles.begin > at ? tiles.begin - at : 0;
    s.end = tiles.end - at < kStretchTiles ? tiles.end - at : kStretchTiles;
    s.first = at <= tiles.begin;
    s.last = at + kStretchTiles >= tiles.end;
    for (int t = s.begin; t < s.end; ++t) {
      s.tile[t] = tiles.tile[at + t];
      s.ahead[t] = TileAhead(tiles, at + t, tiles_ahead);
    }
    return s;
  }
};

// Which part of the sums a round is.
struct Round {
  const Stretch* stretch;
  int group;  // its first group of dims
  int groups;
};

// One call, for a batch of queries, and what follows from its shape.
struct ValueCall {
  const float* weights;
  int queries;
  RowFormat format;
  float* out;
  int64_t out_stride;
  float* bias_sums;  // [groups][queries][16], where the format has biases
  int columns;
  int group_columns;
  int scales_at;
};

template <typename Format>
struct PackedValues {
  static constexpr PackedShape kShape = Format::kShape;
  static constexpr int kBits = kShape.bits;
  static constexpr int kPlanes = Format::kPlanes;
  static constexpr float kLevels = kPlanes == 1 ? kOnePlaneWeightLevels : kTwoPlaneWeightLevels;
  // Levels without a table are read from the top of a byte.
  static constexpr float kLevelUnit = Format::kTable ? 1.0f : 1.0f / static_cast<float>(1 << (8 - kBits));
  static constexpr bool kFar = AskFar(kBits);
  // Queries of a block of N columns of dims.
  static constexpr int MostQueries(int n) {
    const int fit = kPackedValueAccumulators / kPlanes / n;
    return fit < kPackedBatch / kPlanes ? fit : kPackedBatch / kPlanes;
  }
  using P = PackedVectors<kBits>;
  using Weights = RoundWeights<kPlanes>;

  // ---- Weights

  HF_INLINE PackedTerms TermsAt(const std::byte* at) {
    return Format::Terms(LoadF16(at), kShape.bias ? LoadF16(at + kPackedScaleBytes) : Zero());
  }

  HF_INLINE void StoreBias(const ValueCall& call, const Stretch& stretch, int group, int q, F32x16 bias) {
    float* sum = call.bias_sums + (group * call.queries + q) * 16;
    Store(sum, stretch.first ? bias : Add(Load(sum), bias));
  }

  // Weights times their scales, for a group of dims of a whole stretch and all queries, to slots from `slot` on.
  HF_INLINE void Scale(const ValueCall& call, const Stretch& stretch, int group, int slot, Weights* to) {
    PackedTerms terms[kStretchTiles];
    const int scale_at = call.scales_at + group * PackedGroupBytes(kShape);
#pragma GCC unroll 8
    for (int t = 0; t < kStretchTiles; ++t) {
      terms[t] = TermsAt(stretch.tile[t] + scale_at);
      Ask<kFar>(stretch.ahead[t] + scale_at);
    }
    for (int q = 0; q < call.queries; ++q) {
      const float* w = call.weights + q * kChunkRows + stretch.row;
      F32x16 most = Zero();
      F32x16 bias = Zero();
#pragma GCC unroll 8
      for (int t = 0; t < kStretchTiles; ++t) {
        const F32x16 p = Load(w + t * kTileRows);
        const F32x16 scaled = Mul(p, terms[t].scale);
        most = Max(most, scaled);
        if (Format::kValueBias) bias = Fma(p, terms[t].bias, bias);
        Store(to->scaled[slot + q][t], scaled);
      }
      Store(to->most[slot + q], most);
      if constexpr (Format::kValueBias) StoreBias(call, stretch, group, q, bias);
    }
  }

  // The same of a stretch that is not whole: rows that are not given weigh 0.
  HF_NOINLINE static void ScalePart(const ValueCall* call, const Stretch* stretch, int group, int slot,
                                    Weights* to) {
    const int scale_at = call->scales_at + group * PackedGroupBytes(kShape);
    for (int q = 0; q < call->queries; ++q) {
      const float* w = call->weights + q * kChunkRows + stretch->row;
      F32x16 most = Zero();
      F32x16 bias = Zero();
      for (int t = 0; t < kStretchTiles; ++t) {
        F32x16 scaled = Zero();
        if (t >= stretch->begin && t < stretch->end) {
          const PackedTerms terms = TermsAt(stretch->tile[t] + scale_at);
          const F32x16 p = Load(w + t * kTileRows);
          scaled = Mul(p, terms.scale);
          most = Max(most, scaled);
          if (Format::kValueBias) bias = Fma(p, terms.bias, bias);
        }
        Store(to->scaled[slot + q][t], scaled);
      }
      Store(to->most[slot + q], most);
      if constexpr (Format::kValueBias) StoreBias(*call, *stretch, group, q, bias);
    }
  }

  // A round's weights and the steps of their levels.
  HF_INLINE void Measure(const ValueCall& call, const Round& round, Weights* to) {
    const int slots = round.groups * call.queries;
    const Stretch& stretch = *round.stretch;
    const bool whole = stretch.end - stretch.begin == kStretchTiles;
    for (int g = 0; g < round.groups; ++g) {
      if (whole) {
        Scale(call, stretch, round.group + g, g * call.queries, to);
      } else {
        ScalePart(&call, &stretch, round.group + g, g * call.queries, to);
      }
    }
    for (int i = slots; i < kPackedBatch; ++i) Store(to->most[i], Zero());
    F32x16 most[kPackedBatch];
#pragma GCC unroll 8
    for (int i = 0; i < kPackedBatch; ++i) most[i] = Load(to->most[i]);
    const F32x16 largest = HMaxEach(most);
    const F32x16 tiny = Set(kTiny);
    Store(to->inverse, SelectLess(largest, tiny, Zero(), Div(Set(kLevels), Max(largest, tiny))));
    Store(to->scale, SelectLess(largest, tiny, Zero(), Mul(largest, Set(kLevelUnit / kLevels))));
    if constexpr (Format::kValueBias) {
      if (stretch.last) {
        F32x16 sums[kPackedBatch];
#pragma GCC unroll 8
        for (int i = 0; i < kPackedBatch; ++i) {
          const int at = i < slots ? round.group * call.queries + i : 0;
          sums[i] = Load(call.bias_sums + at * 16);
        }
        // + 0: a sum of -0 (an underflow) must not differ from the same sum beside rows of weight 0.
        Store(to->bias, Add(HSumEach(sums), Zero()));
      }
    }
  }

  HF_INLINE void Quantise(int slot, Weights* to) {
    const F32x16 inverse = Set(to->inverse[slot]);
#pragma GCC unroll 2
    for (int pack = 0; pack < kPacks; ++pack) {
      [[maybe_unused]] F32x16 carry = Load(kFirstCarry[pack]);
      I32x16 level[kPackTiles];
#pragma GCC unroll 4
      for (int t = 0; t < kPackTiles; ++t) {
        const F32x16 scaled = Load(to->scaled[slot][pack * kPackTiles + t]);
        if constexpr (kPlanes == 1) {
          const F32x16 wanted = Fma(scaled, inverse, carry);
          level[t] = RoundToI32(wanted);
          carry = Fraction(wanted);
        } else {
          level[t] = RoundToI32(Mul(scaled, inverse));
        }
      }
      if constexpr (kPlanes == 1) {
        BStore(to->level[0][slot][pack], PackLevels(level[0], level[1], level[2], level[3]));
      } else {
        B8x64 upper;
        B8x64 lower;
        PackLevels16(level[0], level[1], level[2], level[3], &upper, &lower);
        BStore(to->level[0][slot][pack], upper);
        BStore(to->level[kPlanes - 1][slot][pack], lower);
      }
    }
  }

  // ---- Dots

  // N columns of the given tiles of a stretch, of S groups of N / S columns each, added to out.
  template <int N, int S>
  struct Block {
    // Bytes between the levels of a query's groups.
    HF_INLINE int64_t GroupStep(const ValueCall& call) { return int64_t{call.queries} * (kPacks * 64); }

    template <int Q, int quad>
    HF_INLINE void Quads(const std::byte* upper_at, const B8x64* lower, B8x64* upper, bool odd_column,
                         const typename Format::Levels& levels, const std::byte* hi_level,
                         const std::byte* lo_level, int64_t step, I32x16 (&hi)[Q][N], I32x16 (&lo)[Q][N]) {
      B8x64 v[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const int vector = n * P::kColumnVectors + quad / P::kUpperQuads;
        if constexpr (quad % P::kUpperQuads == 0) upper[n] = BLoad(upper_at + vector * 64);
        const bool odd = N == 1 ? odd_column : n % 2 == 1;
        v[n] = levels.template Value<quad>(upper[n], lower[n], odd);
      }
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
        for (int s = 0; s < S; ++s) {
          constexpr int kOf = N / S;
          const int64_t at = s * step + q * (kPacks * 64) + quad * 16;
          const B8x64 w_hi = BBroadcast4(hi_level + at);
#pragma GCC unroll 4
          for (int n = s * kOf; n < (s + 1) * kOf; ++n) hi[q][n] = DotU8I8(hi[q][n], w_hi, v[n]);
          if constexpr (kPlanes == 2) {
            const B8x64 w_lo = BBroadcast4(lo_level + at);
#pragma GCC unroll 4
            for (int n = s * kOf; n < (s + 1) * kOf; ++n) lo[q][n] = DotU8I8(lo[q][n], w_lo, v[n]);
          }
        }
      }
      if constexpr (quad < 3) {
        Quads<Q, quad + 1>(upper_at, lower, upper, odd_column, levels, hi_level, lo_level, step, hi, lo);
      }
    }

    template <int Q>
    HF_NOINLINE static void Run(int first, const ValueCall* call, const Round* round, const Weights* weights,
                                int slot, int column) {
      const RowFormat format = call->format;
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
      const Stretch& stretch = *round->stretch;
      for (int t = stretch.begin; t < stretch.end; ++t) {
        const std::byte* upper_at = stretch.tile[t] + upper_offset;
        const std::byte* lower_at = stretch.tile[t] + lower_offset;
        B8x64 upper[N];
        B8x64 lower[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
          lower[n] =
              P::kHasLower ? BLoad(lower_at + VColumnAt(P::kHasLower ? P::kLowerBits : 8, n)) : B8x64{};
        }
        if (ask) {
          const std::byte* next = Opaque(stretch.ahead[t] + upper_offset);
#pragma GCC unroll 16
          for (int j = 0; j < N * P::kColumnVectors; ++j) Ask<kFar>(next + j * 64);
          if constexpr (P::kHasLower) {
            next = Opaque(next + (lower_offset - upper_offset));
#pragma GCC unroll 4
            for (int n = 0; n < N; n += 2 / P::kLowerBits) Ask<kFar>(next + VColumnAt(P::kLowerBits, n));
          }
        }
        const unsigned pack = static_cast<unsigned>(t) / kPackTiles;
        const unsigned at = static_cast<unsigned>(t) % kPackTiles * 4;
        Quads<Q, 0>(upper_at, lower, upper, column % 2 == 1, levels,
                    weights->level[0][slot + first][pack] + at,
                    weights->level[kPlanes - 1][slot + first][pack] + at, GroupStep(*call), hi, lo);
      }
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
        float* to = call->out + (first + q) * call->out_stride + column * 16;
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
          const int weight_slot = slot + first + q + n / (N / S) * call->queries;
          const F32x16 scale = Set(weights->scale[weight_slot]);
          F32x16 dot = ToF32(hi[q][n]);
          if constexpr (kPlanes == 2) dot = Fma(dot, Set(256.0f), ToF32(lo[q][n]));
          F32x16 sum = Fma(dot, scale, stretch.first ? Zero() : Load(to + n * 16));
          if constexpr (Format::kValueBias) {
            if (stretch.last) sum = Add(sum, Set(weights->bias[weight_slot]));
          }
          Store(to + n * 16, sum);
        }
      }
    }
  };

  // Columns [column, column + n) of a group of a round.
  template <int N>
  HF_INLINE void Columns(const ValueCall& call, const Round& round, const Weights& weights, int slot,
                         int column, int n) {
    for (; n >= N; n -= N, column += N) {
      ForQueryBlocks<Block<N, 1>, MostQueries(N)>(call.queries, &call, &round, &weights, slot, column);
    }
    if constexpr (N > 1) {
      if (n > 0) Columns<N / 2>(call, round, weights, slot, column, n);
    }
  }

  // Quantises a round's weights and adds its dots to the output.
  HF_INLINE void AddDots(const ValueCall& call, const Round& round, Weights* weights) {
    constexpr int kWide = kPackedValueVectors;
    constexpr int kNarrow = kWide > 1 ? 2 : 1;
    const bool wide = call.queries <= MostQueries(kWide);
    for (int i = 0; i < round.groups * call.queries; ++i) Quantise(i, weights);
    for (int g = 0; g < round.groups; ++g) {
      const int column = (round.group + g) * call.group_columns;
      const int left = call.columns - column;
      const int n = left < call.group_columns ? left : call.group_columns;
      const int slot = g * call.queries;
      // Two groups at once where one alone has too few sums to keep the dots busy.
      if (kWide == 4 && wide && n == 2 && left >= 4 && g + 1 < round.groups) {
        ForQueryBlocks<Block<kWide, kNarrow>, MostQueries(kWide)>(call.queries, &call, &round, weights, slot,
                                                                  column);
        ++g;
      } else if (wide) {
        Columns<kWide>(call, round, *weights, slot, column, n);
      } else {
        Columns<kNarrow>(call, round, *weights, slot, column, n);
      }
    }
  }

  static void AccumulateBatch(const float* weights, int queries, RowFormat format, const ChunkTiles& tiles,
                              float* out, int64_t out_stride) {
    Weights weights_of[2];
    Stretch stretches[kChunkTiles / kStretchTiles];
    alignas(64) float bias_sums[Format::kValueBias ? kPackedBatch * kMostPackedGroups * 16 : 16];
    const int groups = PackedGroups(kShape, format);
    const int columns = VColumns(format.dim);
    const ValueCall call = {weights,
                            queries,
                            format,
                            out,
                            out_stride,
                            bias_sums,
                            columns,
                            groups == 1 ? columns : PackedGroupDims(kShape, format) / kVectorDims,
                            VScalesAt(kBits, format.dim)};
    if (tiles.begin >= tiles.end) {
      for (int q = 0; q < queries; ++q) {
        for (int c = 0; c < columns; ++c) Store(out + q * out_stride + c * 16, Zero());
      }
      return;
    }
    const int begin = tiles.begin / kStretchTiles;
    const int end = (tiles.end + kStretchTiles - 1) / kStretchTiles;
    for (int i = begin; i < end; ++i) stretches[i] = Stretch::Of(tiles, i, kPackedTilesAhead);
    // A round's largest weights, a long chain, are looked for while the dots of the one before are under way.
    const int round_groups = kPackedBatch / queries;
    Round now = {&stretches[begin], 0, 0};
    Round before = now;
    for (int n = 0;; ++n) {
      const bool more = now.stretch < stretches + end;
      if (more) {
        now.groups = groups - now.group < round_groups ? groups - now.group : round_groups;
        Measure(call, now, &weights_of[n % 2]);
      }
      if (n > 0) AddDots(call, before, &weights_of[(n - 1) % 2]);
      if (!more) break;
      before = now;
      now.group += now.groups;
      if (now.group == groups) now = {now.stretch + 1, 0, 0};
    }
  }

  static void Accumulate(const float* weights, int queries, int dim, RowFormat row, const ChunkTiles& tiles,
                         float* out, int64_t out_stride) {
    for (int q = 0; q < queries; q += kPackedBatch) {
      const int batch = queries - q < kPackedBatch ? queries - q : kPackedBatch;
      AccumulateBatch(weights + q * kChunkRows, batch, RowFormat(dim, row.group), tiles, out + q * out_stride,
                      out_stride);
    }
  }
};

}  // namespace holdfast::HOLDFAST_ISA_NS
