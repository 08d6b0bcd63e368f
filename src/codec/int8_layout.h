// The bytes of an int8 tile: per row one f16 scale and a code in -127..127 for each value, value = code *
// scale.
//
//   K tile  [dim / 4][16 rows][4 dims] bytes of code + 128, then 16 f16 scales. A 32-bit lane is 4 dims of
//   one row,
//           so an unsigned x signed dot over 4 bytes with a broadcast of 4 query bytes adds to 16 rows at
//           once. Dims are padded to a multiple of 4 with code 0.
//   V tile  [slice][4 row groups][slice width][4 rows] bytes of code, then 16 f16 scales. A 32-bit lane is
//   one dim of
//           4 rows, so the same dot with a broadcast of 4 weights adds 4 rows to 16 dims at once. Dims are
//           padded to whole vectors with code 0 and cut into slices of 64.
//
// Codes come first so that they share the tile's alignment. Shared by the baseline decoder and the per-ISA
// kernels.
#pragma once

#include "codec/float_layout.h"

namespace holdfast {

inline constexpr int kInt8Codes = 127;  // codes are -127..127
inline constexpr int kInt8KBias = 128;  // K bytes are code + 128
inline constexpr int kInt8ScaleBytes = 2 * kTileRows;
// The largest magnitude is the largest f16 scale times the largest code; below half of this much over the
// last code of a scale the scale stays, else the next f16 is taken (a subnormal scale has few bits).
inline constexpr float kInt8LargestScale = 65504.0f;
inline constexpr float kInt8ClipLimit = 127.5f;

static inline constexpr int Int8KGroups(int dim) {
  return (dim + 3) / 4;
}
static inline constexpr int Int8KCodeBytes(int dim) {
  return Int8KGroups(dim) * 4 * kTileRows;
}
static inline constexpr int Int8VCodeBytes(int dim) {
  return PadToVector(dim) * kTileRows;
}

static inline constexpr int Int8KOffset(int slot, int d) {
  return (d / 4 * kTileRows + slot) * 4 + d % 4;
}
static inline constexpr int Int8VOffset(int dim, int slot, int d) {
  const int first = d / kSliceDims * kSliceDims;
  return first * kTileRows + (slot / 4 * SliceWidth(dim, first) + (d - first)) * 4 + slot % 4;
}

static_assert(Int8KCodeBytes(64) + kInt8ScaleBytes == 1056, "66 bytes a row of 64");
static_assert(Int8KOffset(15, 63) == 1023 && Int8VOffset(64, 15, 63) == 1023);
static_assert(Int8VOffset(80, 0, 64) == 64 * 16 && Int8VOffset(80, 15, 79) == 80 * 16 - 1);

}  // namespace holdfast
