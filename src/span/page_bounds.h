// What is kept of a page of K rows so that a query's scores can be bounded without reading it.
//
// A page is a tile: 16 rows at positions [16t, 16t + 16) of one KV head. Its bounds are the smallest and the largest
// value of each dim over its rows as they are stored, so as a score sees them: for a query q no row of the page scores
// more than sum over d of max(q[d] * lowest[d], q[d] * highest[d]). Source: Tang et al. 2024 (Quest), arXiv:2406.10774.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "codec/codec.h"

namespace holdfast {

// f16, lowest [dims] and then highest [dims], where dims is dim rounded up to 16 and padding is 0.
inline constexpr int64_t kPageBoundBytes = 2;
constexpr int64_t PageBoundDims(int dim) {
  return RoundUp(dim, 16);
}
constexpr int64_t PageBoundsBytes(int dim) {
  return 2 * kPageBoundBytes * PageBoundDims(dim);
}
static_assert(PageBoundsBytes(64) == 256 && PageBoundsBytes(72) == 320 && PageBoundsBytes(kMaxDim) == 4096);

// A larger magnitude has no bound in f16.
inline constexpr float kLargestPageBound = 65504.0f;

// Writes the bounds of a K tile of which all 16 rows are written: the nearest f16 that is not above the smallest value,
// and the nearest that is not below the largest. Values past kLargestPageBound, to which rounding may bring a stored row,
// are bounded by it.
void WritePageBounds(CodecSpec codec, int dim, const std::byte* k_tile, std::byte* bounds);

// lowest [dim] and highest [dim].
void ReadPageBounds(const std::byte* bounds, int dim, float* lowest, float* highest);

}  // namespace holdfast
