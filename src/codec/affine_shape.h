// The shapes of affine8, affine6 and affine4: value = scale * code + bias, a scale and a bias for each row and
// group of dims, the group a parameter. Shared by the baseline decoder and the per-ISA kernels.
#pragma once

#include "codec/packed_layout.h"

namespace holdfast {

inline constexpr PackedShape kAffine8Shape = {8, true, 64};
inline constexpr PackedShape kAffine6Shape = {6, true, 64};
inline constexpr PackedShape kAffine4Shape = {4, true, 32};
inline constexpr int kMostSearchedBits =
    4;  // at most as many: scale and bias are searched, as affine_codec.h says
inline constexpr float kAffineLargest = 65504.0f;  // a bias is an f16

}  // namespace holdfast
