// The shapes of q8_0 and q4_0: the values of GGML's blocks of 32, laid out in tiles. Shared by the baseline
// decoder and the per-ISA kernels.
#pragma once

#include "codec/packed_layout.h"

namespace holdfast {

inline constexpr PackedShape kQ8_0Shape = {8, false, 32};
inline constexpr PackedShape kQ4_0Shape = {4, false, 32};
// The largest f16 scale times the largest code.
inline constexpr float kQ8_0Largest = 65504.0f * 127.0f;
inline constexpr float kQ4_0Largest = 65504.0f * 8.0f;

}  // namespace holdfast
