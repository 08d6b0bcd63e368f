// The softmax of a chunk and the merge of partials, over sixteen lanes.
#include "attention/kernels/softmax_kernels.h"

#include "codec/codec_kernels.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

constexpr int kLanes = 16;
static_assert(kTileRows == kLanes, "a lane is a row of a tile");
alignas(64) constexpr float kLaneNumber[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

template <bool kCapped>
HF_INLINE F32x16 Logit(F32x16 score, F32x16 scale, F32x16 cap) {
  const F32x16 scaled = Mul(score, scale);
  return kCapped ? Mul(Tanh(scaled), cap) : scaled;
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

// The largest logit that the view holds; leaves the logits, -infinity where unseen, in `row`. `poison`
// collects 0 * score: NaN as soon as one is not finite.
template <bool kCapped>
HF_INLINE F32x16 LogitsAndMax(float* row, const ChunkView& view, int tile_begin, int tile_end,
                              const ScoreRule& rule, F32x16* poison) {
  const F32x16 scale = Set(rule.scale);
  const F32x16 cap = Set(rule.cap);
  const F32x16 unseen = Set(kEmptyMax);
  F32x16 largest = unseen;
  for (int t = tile_begin; t < tile_end; ++t) {
    float* at = row + t * kLanes;
    F32x16 score = Load(at);
    const bool full = Covers(view, t * kLanes);
    if (!full) score = Masked(view, t * kLanes, score, Zero());
    *poison = Fma(score, Zero(), *poison);
    F32x16 logit = Logit<kCapped>(score, scale, cap);
    if (!full) logit = Masked(view, t * kLanes, logit, unseen);
    largest = Max(largest, logit);
    Store(at, logit);
  }
  return largest;
}

template <bool kCapped>
HF_INLINE PartialHead SoftmaxRow(float* row, const ChunkView& view, bool poisoned, int tile_begin,
                                 int tile_end, const ScoreRule& rule) {
  if (view.begin0 == view.end0 && view.begin1 == view.end1) {
    ZeroWeights(row, tile_begin, tile_end);
    return {kEmptyMax, 0.0f};
  }
  F32x16 poison = Zero();
  const float m = HMax(LogitsAndMax<kCapped>(row, view, tile_begin, tile_end, rule, &poison));
  // The logits themselves may overflow where the scores do not, hence the test of m.
  if (poisoned || HSum(poison) != 0.0f || !(m - m == 0.0f)) {
    ZeroWeights(row, tile_begin, tile_end);
    return {0.0f, __builtin_nanf("")};
  }
  const F32x16 base = Set(m);
  F32x16 sum = Zero();
  for (int t = tile_begin; t < tile_end; ++t) {
    float* at = row + t * kLanes;
    const F32x16 weight = Exp2(Sub(Load(at), base));
    Store(at, weight);
    sum = Add(sum, weight);
  }
  return {m, HSum(sum)};
}

void Softmax(float* scores, const ChunkView* views, const bool* poisoned, int queries, int tile_begin,
             int tile_end, const ScoreRule& rule, PartialHead* heads) {
  for (int i = 0; i < queries; ++i) {
    float* row = scores + static_cast<int64_t>(i) * kChunkRows;
    heads[i] = rule.cap == 0.0f ? SoftmaxRow<false>(row, views[i], poisoned[i], tile_begin, tile_end, rule)
                                : SoftmaxRow<true>(row, views[i], poisoned[i], tile_begin, tile_end, rule);
  }
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
  const F32x16 a_factor = Exp2(Set(a->m - m));
  const F32x16 b_factor = Exp2(Set(b.m - m));
  a->m = m;
  a->d = FirstLane(Fma(Set(b.d), b_factor, Mul(Set(a->d), a_factor)));
  for (int64_t d = 0; d < stride; d += kLanes) {
    Store(a_o + d, Fma(Load(b_o + d), b_factor, Mul(Load(a_o + d), a_factor)));
  }
}

void Merge(PartialHead* a, float* a_o, const PartialHead* b, const float* b_o, int queries, int64_t stride) {
  for (int i = 0; i < queries; ++i) MergeOne(&a[i], a_o + i * stride, b[i], b_o + i * stride, stride);
}

void Finish(const PartialHead& a, const float* o, float sink_m, int dim, float* out) {
  F32x16 o_factor = Set(1.0f);
  F32x16 d = Set(a.d);
  if (sink_m != kEmptyMax && !(sink_m - sink_m == 0.0f)) {
    d = Set(__builtin_nanf(""));
  } else if (a.m != kEmptyMax && sink_m != kEmptyMax) {
    const float m = a.m > sink_m ? a.m : sink_m;
    o_factor = Exp2(Set(a.m - m));
    d = Fma(Set(1.0f), Exp2(Set(sink_m - m)), Mul(d, o_factor));
  }
  const bool empty = a.m == kEmptyMax;
  for (int i = 0; i < dim; i += kLanes) {
    const F32x16 x = empty ? Zero() : Div(Mul(Load(o + i), o_factor), d);
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
const SoftmaxKernels kSoftmaxKernels = {Softmax, Merge, Finish, AllFinite};

}  // namespace holdfast::HOLDFAST_ISA_NS
