// affine8, affine6, affine4: the baseline half.
//
// bias is the largest f16 that is not above the group's minimum, scale the smallest f16 that reaches its
// maximum from there in 2^bits - 1 steps, so that every value is within half a scale of a level. A group of
// equal values has that value, rounded to f16, as its bias, and scale 0.
//
// affine4 then searches for a scale and a bias of less squared error, which clip a value or two: kept where no
// value is further than a whole scale of the above from its level (kernels/range_search.h).
#pragma once

#include "codec/affine_shape.h"
#include "codec/packed_codec.h"

namespace holdfast {

template <PackedShape kAffineShape>
struct AffineFormat {
  static constexpr PackedShape kShape = kAffineShape;
  static constexpr int kPlanes = kShape.bits >= 6 ? 2 : 1;
  static constexpr bool kTakesGroup = true;
  static constexpr bool kAlwaysRotated = false;
  static constexpr float kMaxMagnitude = kAffineLargest;

  static float Decode(int code, float scale, float bias, int /*dim*/) {
    return static_cast<float>(code) * scale + bias;
  }
  static int CodeOfValue(int stored, float scale) { return CodeOfTwosComplement<kShape.bits>(stored, scale); }

  // Half of a scale, or all of it where there is a search, that is at most an f16's spacing above the exact one, and
  // what float rounding adds.
  static float GroupError(const float* values, int n, int /*dim*/) {
    const auto [least, most] = std::minmax_element(values, values + n);
    const float magnitude = std::fmax(std::fabs(*least), std::fabs(*most));
    if (*least == *most) return std::fmax(magnitude * 0x1p-11f, 0x1p-25f);
    constexpr float kLevels = static_cast<float>((1 << kShape.bits) - 1);
    const float below = std::fmax(std::fabs(*least) * 0x1p-10f, 0x1p-24f);  // the bias's distance
    const float scale = (*most - *least + below) / kLevels;
    constexpr float kOff = kShape.bits <= kMostSearchedBits ? 1.0001f : 0.5001f;
    return kOff * std::fmax(scale * (1.0f + 0x1p-9f), scale + 0x1p-24f) + magnitude * 0x1p-22f;
  }
};

}  // namespace holdfast
