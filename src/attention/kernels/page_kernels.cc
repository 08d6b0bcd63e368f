// Bounds of pages, a vector of dims at a time, and the n-th best score by bisection of its bits.
#include "attention/kernels/page_kernels.h"

#include "attention/partial.h"
#include "codec/kernels/query_blocks.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

constexpr int kLanes = 16;
constexpr int kMostHeads = 4;   // whose sums are in registers
constexpr int kPagesAhead = 6;  // asked for before they are read
constexpr int kBoundBytes = 2;

void Split(const float* query, int dim, float sign, float* halves) {
  const int dims = (dim + kLanes - 1) / kLanes * kLanes;
  for (int d = 0; d < dims; d += kLanes) {
    const F32x16 q = Mul(LoadFirst(query + d, dim - d < kLanes ? dim - d : kLanes), Set(sign));
    Store(halves + d, Max(q, Zero()));
    Store(halves + dims + d, Min(q, Zero()));
  }
}

struct BoundBlock {
  template <int Q>
  HF_NOINLINE static void Run(int first, const float* all, int dims, const std::byte* const* pages, int count,
                              float* bounds, int64_t stride) {
    const float* halves = all + static_cast<int64_t>(first) * 2 * dims;
    for (int p = 0; p < count; ++p) {
      const std::byte* lowest = pages[p];
      const std::byte* highest = lowest + dims * kBoundBytes;
      if (first == 0) {
        const std::byte* next = pages[p + kPagesAhead < count ? p + kPagesAhead : p];
        for (int at = 0; at < 2 * dims * kBoundBytes; at += 64) Prefetch(next + at);
      }
      F32x16 sum[Q];
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) sum[q] = Zero();
      for (int d = 0; d < dims; d += kLanes) {
        const F32x16 high = LoadF16(highest + d * kBoundBytes);
        const F32x16 low = LoadF16(lowest + d * kBoundBytes);
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
          const float* half = halves + q * 2 * dims + d;
          sum[q] = Fma(low, Load(half + dims), Fma(high, Load(half), sum[q]));
        }
      }
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) bounds[(first + q) * stride + p] = HSum(sum[q]);
    }
  }
};

void Bound(const float* halves, int heads, int dims, const std::byte* const* pages, int count, float* bounds,
           int64_t stride) {
  ForQueryBlocks<BoundBlock, kMostHeads>(heads, halves, dims, pages, count, bounds, stride);
}

void Score(float* bounds, int heads, int64_t stride, int64_t count) {
  const int64_t end = (count + kLanes - 1) / kLanes * kLanes;
  for (int h = 0; h < heads; ++h) {
    float* row = bounds + h * stride;
    for (int64_t p = count; p < end; ++p) row[p] = kEmptyMax;
    F32x16 most = Set(kEmptyMax);
    for (int64_t p = 0; p < end; p += kLanes) most = Max(most, Load(row + p));
    const F32x16 largest = Set(HMax(most));
    for (int64_t p = 0; p < end; p += kLanes) {
      const F32x16 below = Sub(Load(row + p), largest);
      Store(bounds + p, h == 0 ? below : Max(Load(bounds + p), below));
    }
  }
}

// Floats in the order of their keys, -NaN first and NaN last.
HF_INLINE float OfKey(uint32_t key) {
  const uint32_t bits = (key >> 31) != 0 ? key & 0x7fffffffu : ~key;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

HF_INLINE bool AtLeast(const float* scores, int64_t count, int64_t n, float value) {
  const F32x16 limit = Set(value);
  const F32x16 one = Set(1.0f);
  F32x16 reached = Zero();
  for (int64_t p = 0; p < count; p += kLanes) {
    reached = Add(reached, SelectLess(Load(scores + p), limit, Zero(), one));
  }
  return HSum(reached) >= static_cast<float>(n);
}

float Nth(const float* scores, int64_t count, int64_t n) {
  constexpr uint32_t kLargestKey = 0xff800000u;  // +infinity
  uint32_t key = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t higher = key | uint32_t{1} << bit;
    if (higher <= kLargestKey && AtLeast(scores, count, n, OfKey(higher))) key = higher;
  }
  return OfKey(key);
}

}  // namespace

extern const PageKernels kPageKernels;
const PageKernels kPageKernels = {Split, Bound, Score, Nth};

}  // namespace holdfast::HOLDFAST_ISA_NS
