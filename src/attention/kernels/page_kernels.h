// How much the pages of a KV head can score at most, and the best of them. One table an instruction set. Plain types
// only: kernels include this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast {

struct PageKernels {
  // halves [2 * dims]: max(sign * query, 0) and then min(sign * query, 0), each padded with zeros from dim to dims, a
  // multiple of 16.
  void (*split)(const float* query, int dim, float sign, float* halves);

  // bounds[h * stride + p] = the most that a row of page p scores against head h: the sum over d of positive half *
  // highest + negative half * lowest. halves [heads, 2 * dims]; page p's bounds (span/page_bounds.h) at pages[p]. The
  // order of the sum is fixed: a lane adds its dims in ascending order, highest before lowest, then HSum.
  void (*bound)(const float* halves, int heads, int dims, const std::byte* const* pages, int count,
                float* bounds, int64_t stride);

  // bounds[p] = max over heads h of bounds[h * stride + p] - the largest of head h's, for p in [0, count). REQUIRES
  // stride >= count rounded up to 16.
  void (*score)(float* bounds, int heads, int64_t stride, int64_t count);

  // The largest value that at least n of scores [count] reach, 1 <= n <= count. A NaN reaches every value. REQUIRES
  // -infinity in scores from count to count + 15.
  float (*nth)(const float* scores, int64_t count, int64_t n);
};

}  // namespace holdfast
