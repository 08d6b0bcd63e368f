#include "span/page_bounds.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/float16.h"

namespace holdfast {
namespace {

constexpr uint16_t kSign = 0x8000;

// The nearest f16 that is not above x, -0 aside.
uint16_t RoundDown(float x) {
  x = std::clamp(x, -kLargestPageBound, kLargestPageBound);
  const uint16_t nearest = F32ToF16(x);
  if (F16ToF32(nearest) <= x) return nearest;
  if ((nearest & kSign) != 0) return static_cast<uint16_t>(nearest + 1);
  return nearest == 0 ? uint16_t{kSign | 1} : static_cast<uint16_t>(nearest - 1);
}

uint16_t RoundUp(float x) {
  return RoundDown(-x) ^ kSign;
}

}  // namespace

void WritePageBounds(CodecSpec spec, int dim, const std::byte* k_tile, std::byte* bounds) {
  const Codec& codec = GetCodec(spec);
  std::array<float, kMaxDim> row, lowest, highest;
  codec.decode_k(k_tile, {dim, spec.group}, 0, lowest.data());
  std::copy_n(lowest.begin(), dim, highest.begin());
  for (int slot = 1; slot < kTileRows; ++slot) {
    codec.decode_k(k_tile, {dim, spec.group}, slot, row.data());
    for (size_t d = 0; d < static_cast<size_t>(dim); ++d) {
      lowest[d] = std::min(lowest[d], row[d]);
      highest[d] = std::max(highest[d], row[d]);
    }
  }
  std::array<uint16_t, 2 * kMaxDim> rounded = {};
  const auto dims = static_cast<size_t>(PageBoundDims(dim));
  for (size_t d = 0; d < static_cast<size_t>(dim); ++d) {
    rounded[d] = RoundDown(lowest[d]);
    rounded[dims + d] = RoundUp(highest[d]);
  }
  std::memcpy(bounds, rounded.data(), static_cast<size_t>(PageBoundsBytes(dim)));
}

void ReadPageBounds(const std::byte* bounds, int dim, float* lowest, float* highest) {
  const auto at = [&](int64_t i) {
    uint16_t bits;
    std::memcpy(&bits, bounds + i * kPageBoundBytes, sizeof bits);
    return F16ToF32(bits);
  };
  for (int d = 0; d < dim; ++d) {
    lowest[d] = at(d);
    highest[d] = at(PageBoundDims(dim) + d);
  }
}

}  // namespace holdfast
