// The softmax of a chunk and the merge of partials, over sixteen lanes.
#include "attention/kernels/softmax_kernels.h"

#include "codec/codec_kernels.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

constexpr int kLanes = 16;
static_assert(kTileRows == kLanes, "a lane is a row of a tile");
alignas(64) constexpr float kLaneNumber[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// 2^x for x <= 0 and little above: exactly 1 at 0, exactly 0 below -126, -infinity included. REQUIRES x not
// NaN. Error below 1.7e-7. Cheaper than Exp2 of simd/vec.h by what positive numbers and NaN cost there; it is
// an eighth of a long prefill. 2^f = 1 + f * q(f), q minimax on [-1/2, 1/2] for the relative error (Lawson's
// iteration).
HF_INLINE F32x16 Weight(F32x16 x) {
  const F32x16 low = Set(-126.0f);
#if defined(HOLDFAST_ISA_AVX512)
  const F32x16 at_least = x;  // any number has a fraction there
#else
  const F32x16 at_least = Max(x, low);
#endif
  const F32x16 f = Fraction(at_least);
  F32x16 p = Set(1.326472731e-03f);
  p = Fma(p, f, Set(9.671512991e-03f));
  p = Fma(p, f, Set(5.550733581e-02f));
  p = Fma(p, f, Set(2.402224243e-01f));
  p = Fma(p, f, Set(6.931470037e-01f));
  p = Fma(p, f, Set(1.0f));
  return ScaledFrom(low, x, p, Sub(at_least, f));
}

HF_INLINE bool Covers(const ChunkView& view, int row) {
  return (view.begin0 <= row && row + kLanes <= view.end0) ||
         (view.begin1 <= row && row + kLanes <= view.end1);
}

// Lanes of x with begin <= at < end; elsewhere `other`.
HF_INLINE F32x16 Within(F32x16 at, int32_t begin, int32_t end, F32x16 x, F32x16 other) {
  const F32x16 below_end = SelectLess(at, Set(static_cast<float>(end)), x, other);
  return SelectLess(at, Set(static_cast<float>(begin)), other, below_end);
}

// Lanes of x whose row the view holds; elsewhere `other`.
HF_INLINE F32x16 Masked(const ChunkView& view, int row, F32x16 x, F32x16 other) {
  const F32x16 at = Add(Load(kLaneNumber), Set(static_cast<float>(row)));
  return Within(at, view.begin1, view.end1, x, Within(at, view.begin0, view.end0, x, other));
}

HF_INLINE void ZeroWeights(float* row, int tile_begin, int tile_end) {
  for (int t = tile_begin; t < tile_end; ++t) Store(row + t * kLanes, Zero());
}

// Scores are turned into logits while the largest is looked for (kLogits), or, where the largest score has
// the largest logit, only when the weights are computed (kScores).
enum class Keep { kScores, kLogits };

HF_INLINE F32x16 Logit(F32x16 score, const ScoreRule& rule) {
  const F32x16 scaled = Mul(score, Set(rule.scale));
  return rule.cap == 0.0f ? scaled : Mul(Tanh(scaled), Set(rule.cap));
}

// The largest score or logit that the view holds. `poison` collects 0 * score: NaN as soon as one is not
// finite. kAll: the view holds every row of the tiles.
template <Keep keep, bool kAll>
HF_INLINE float Largest(float* row, const ChunkView& view, float offset, int tile_begin, int tile_end,
                        const ScoreRule& rule, F32x16* poison) {
  const F32x16 unseen = Set(kEmptyMax);
  // Two chains each, because one is most of the time of a single row.
  F32x16 largest[2] = {unseen, unseen};
  F32x16 poisons[2] = {Zero(), Zero()};
  const auto see = [&](int t, int chain) {
    float* at = row + t * kLanes;
    F32x16 x = Load(at);
    const bool full = kAll || Covers(view, t * kLanes);
    poisons[chain] = Fma(full ? x : Masked(view, t * kLanes, x, Zero()), Zero(), poisons[chain]);
    if (keep == Keep::kLogits) {
      x = Logit(Add(x, Set(offset)), rule);
      Store(at, x);
    }
    largest[chain] = Max(largest[chain], full ? x : Masked(view, t * kLanes, x, unseen));
  };
  int t = tile_begin;
  for (; t + 1 < tile_end; t += 2) {
    see(t, 0);
    see(t + 1, 1);
  }
  if (t < tile_end) see(t, 0);
  *poison = Add(poisons[0], poisons[1]);
  return HMax(Max(largest[0], largest[1]));
}

// What the weights of a row are relative to.
struct Peak {
  bool empty;     // the view holds no row
  bool poisoned;  // a score, or the largest logit, is not finite
  float m;        // before the offset, where scores are kept
  float shifted_m;
};

HF_INLINE bool HoldsAll(const ChunkView& view, int tile_begin, int tile_end) {
  return view.begin0 <= tile_begin * kLanes && tile_end * kLanes <= view.end0;
}

// Where scores are kept their offset moves all logits alike: m has it, and the weights do not see it.
template <Keep keep>
HF_INLINE Peak PeakOf(float* row, const ChunkView& view, bool poisoned, float offset, int tile_begin,
                      int tile_end, const ScoreRule& rule) {
  if (view.begin0 == view.end0 && view.begin1 == view.end1) return {true, false, kEmptyMax, kEmptyMax};
  F32x16 poison = Zero();
  const float scale = keep == Keep::kScores ? rule.scale : 1.0f;
  const float largest = HoldsAll(view, tile_begin, tile_end)
                            ? Largest<keep, true>(row, view, offset, tile_begin, tile_end, rule, &poison)
                            : Largest<keep, false>(row, view, offset, tile_begin, tile_end, rule, &poison);
  const float m = scale * largest;
  const float shifted_m = keep == Keep::kScores ? m + scale * offset : m;
  // The logits may overflow where the scores do not, hence the test of m.
  const bool bad = poisoned || HSum(poison) != 0.0f || !(m - m == 0.0f) || !(shifted_m - shifted_m == 0.0f);
  return {false, bad, m, shifted_m};
}

template <bool kAll>
HF_INLINE float Weigh(float* row, const ChunkView& view, float scale, float m, int tile_begin, int tile_end) {
  const F32x16 factor = Set(scale);
  const F32x16 base = Set(-m);
  F32x16 sum = Zero();
  for (int t = tile_begin; t < tile_end; ++t) {
    float* at = row + t * kLanes;
    F32x16 x = Fma(Load(at), factor, base);
    if (!kAll && !Covers(view, t * kLanes)) x = Masked(view, t * kLanes, x, Set(kEmptyMax));
    const F32x16 weight = Weight(x);
    Store(at, weight);
    sum = Add(sum, weight);
  }
  return HSum(sum);
}

template <Keep keep>
HF_INLINE PartialHead WeightsOf(float* row, const ChunkView& view, const Peak& peak, int tile_begin,
                                int tile_end, const ScoreRule& rule) {
  if (peak.empty || peak.poisoned) {
    ZeroWeights(row, tile_begin, tile_end);
    return peak.empty ? PartialHead{kEmptyMax, 0.0f} : PartialHead{0.0f, __builtin_nanf("")};
  }
  const float scale = keep == Keep::kScores ? rule.scale : 1.0f;
  const float d = HoldsAll(view, tile_begin, tile_end)
                      ? Weigh<true>(row, view, scale, peak.m, tile_begin, tile_end)
                      : Weigh<false>(row, view, scale, peak.m, tile_begin, tile_end);
  return {peak.shifted_m, d};
}

// Several rows' peaks before their weights: a row's weights wait for its peak, the next row's peak does not.
template <Keep keep>
HF_INLINE void SoftmaxRows(float* scores, const ChunkView* views, const bool* poisoned, const float* offsets,
                           int queries, int tile_begin, int tile_end, const ScoreRule& rule,
                           PartialHead* heads) {
  constexpr int kRows = 8;
  for (int first = 0; first < queries; first += kRows) {
    const int n = queries - first < kRows ? queries - first : kRows;
    Peak peaks[kRows];
    for (int i = 0; i < n; ++i) {
      float* row = scores + static_cast<int64_t>(first + i) * kChunkRows;
      peaks[i] = PeakOf<keep>(row, views[first + i], poisoned[first + i], offsets[first + i], tile_begin,
                              tile_end, rule);
    }
    for (int i = 0; i < n; ++i) {
      float* row = scores + static_cast<int64_t>(first + i) * kChunkRows;
      heads[first + i] = WeightsOf<keep>(row, views[first + i], peaks[i], tile_begin, tile_end, rule);
    }
  }
}

void Softmax(float* scores, const ChunkView* views, const bool* poisoned, const float* offsets, int queries,
             int tile_begin, int tile_end, const ScoreRule& rule, PartialHead* heads) {
  if (rule.cap == 0.0f && rule.scale >= 0.0f) {
    SoftmaxRows<Keep::kScores>(scores, views, poisoned, offsets, queries, tile_begin, tile_end, rule, heads);
  } else {
    SoftmaxRows<Keep::kLogits>(scores, views, poisoned, offsets, queries, tile_begin, tile_end, rule, heads);
  }
}

HF_INLINE float FirstLane(F32x16 x);

uint32_t DropSmall(float* weights, int queries, int tile_begin, int tile_end, const PartialHead* heads,
                   const PartialHead* reference, float threshold) {
  constexpr float kMostLog = 100.0f;  // 2 to this is past any weight
  uint32_t left = 0;
  for (int i = 0; i < queries; ++i) {
    if (heads[i].m == kEmptyMax || !(heads[i].d == heads[i].d)) continue;
    float mass = heads[i].d;
    if (reference[i].m != kEmptyMax && reference[i].d == reference[i].d) {
      const float apart = reference[i].m - heads[i].m;
      const float log = apart > kMostLog ? kMostLog : apart < -kMostLog ? -kMostLog : apart;
      const float elsewhere = reference[i].d * FirstLane(Exp2(Set(log)));
      if (elsewhere > mass) mass = elsewhere;
    }
    const F32x16 limit = Set(threshold * mass);
    for (int t = tile_begin; t < tile_end; ++t) {
      float* at = weights + static_cast<int64_t>(i) * kChunkRows + t * kLanes;
      const F32x16 weight = Load(at);
      const F32x16 kept = SelectLess(weight, limit, Zero(), weight);
      Store(at, kept);
      if (HMax(kept) > 0.0f) left |= 1u << t;
    }
  }
  return left;
}

HF_INLINE float FirstLane(F32x16 x) {
  alignas(64) float lanes[kLanes];
  Store(lanes, x);
  return lanes[0];
}

HF_INLINE void MergeOne(PartialHead* a, float* a_o, const PartialHead& b, const float* b_o, int64_t stride) {
  if (b.m == kEmptyMax) return;
  if (a->m == kEmptyMax) {
    *a = b;
    for (int64_t d = 0; d < stride; d += kLanes) Store(a_o + d, Load(b_o + d));
    return;
  }
  const float m = a->m > b.m ? a->m : b.m;
  const F32x16 a_factor = Weight(Set(a->m - m));
  const F32x16 b_factor = Weight(Set(b.m - m));
  a->m = m;
  a->d = FirstLane(Fma(Set(b.d), b_factor, Mul(Set(a->d), a_factor)));
  for (int64_t d = 0; d < stride; d += kLanes) {
    Store(a_o + d, Fma(Load(b_o + d), b_factor, Mul(Load(a_o + d), a_factor)));
  }
}

void Merge(PartialHead* a, float* a_o, const PartialHead* b, const float* b_o, int queries, int64_t stride) {
  for (int i = 0; i < queries; ++i) MergeOne(&a[i], a_o + i * stride, b[i], b_o + i * stride, stride);
}

void Finish(const PartialHead& a, const float* o, float sink_m, const float* center, int dim, float* out) {
  F32x16 o_factor = Set(1.0f);
  F32x16 d = Set(a.d);
  if (sink_m != kEmptyMax && !(sink_m - sink_m == 0.0f)) {
    d = Set(__builtin_nanf(""));
  } else if (a.m != kEmptyMax && sink_m != kEmptyMax) {
    const float m = a.m > sink_m ? a.m : sink_m;
    o_factor = Weight(Set(a.m - m));
    d = Fma(Set(1.0f), Weight(Set(sink_m - m)), Mul(d, o_factor));
  }
  const bool empty = a.m == kEmptyMax;
  for (int i = 0; i < dim; i += kLanes) {
    F32x16 sum = Load(o + i);
    if (center != nullptr) {
      sum = Fma(Set(a.d), i + kLanes <= dim ? Load(center + i) : LoadFirst(center + i, dim - i), sum);
    }
    const F32x16 x = empty ? Zero() : Div(Mul(sum, o_factor), d);
    if (i + kLanes <= dim) {
      Store(out + i, x);
    } else {
      StoreFirst(out + i, x, dim - i);
    }
  }
}

bool AllFinite(const float* x, int n) {
  F32x16 poison = Zero();
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) poison = Fma(Load(x + i), Zero(), poison);
  if (i < n) poison = Fma(LoadFirst(x + i, n - i), Zero(), poison);
  return HSum(poison) == 0.0f;
}

}  // namespace

extern const SoftmaxKernels kSoftmaxKernels;
const SoftmaxKernels kSoftmaxKernels = {Softmax, DropSmall, Merge, Finish, AllFinite};

}  // namespace holdfast::HOLDFAST_ISA_NS
