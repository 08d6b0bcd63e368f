// Where the codes and scales of a grouped codec lie in its tiles: 8, 6, 4, 3 or 2 bits a value.
//
// value = scale * (level of the code - zero) (+ bias): one f16 scale (and bias) for each row and group of dims.
// Codes are split into planes of 8, 4, 2 or 1 bits, each a region of the tile of its own, the upper bits
// first: 6 = 4 + 2, 3 = 2 + 1. A plane is made of 64-byte vectors in which a 32-bit lane is what one integer
// dot takes:
//
//   K plane  a byte lane of a vector is one of 4 dims of one of 16 rows. 8 bits: a vector is 4 dims (a "quad").
//            4 bits: quad 2j in the low nibble, 2j+1 in the high one. 2 bits: quads 4j .. 4j+3, lowest bits
//            first. 1 bit: quads 8j .. 8j+7. Dims are padded to a whole vector of the narrowest plane.
//   V plane  a byte lane is one of 4 rows (a "row quad") of one of 16 dims (a "column"). 8 bits: 4 vectors a
//            column, one a row quad. 4 bits: 2 vectors, row quad 2j low, 2j+1 high. 2 bits: one vector with all
//            four row quads. 1 bit: bits 0..3 are the row quads of column 2j, bits 4..7 of column 2j+1.
//   then     for each group of dims 16 f16 scales, and 16 f16 biases where the codec has them.
//
// Codes come first so that they share the tile's alignment. `static`, so that no code compiled for a strong
// instruction set can be linked into a weaker one's path.
#pragma once

#include <cstdint>

#include "codec/codec_kernels.h"
#include "codec/float_layout.h"

namespace holdfast {

// What the layout depends on.
struct PackedShape {
  int bits;           // 8, 6, 4, 3 or 2
  bool bias;          // a bias a row and group beside the scale
  int default_group;  // dims that share a scale, a multiple of 16; 0: the whole row, always
};

inline constexpr int kQuadDims = 4;
inline constexpr int kPackedScaleBytes = 2 * kTileRows;

static inline constexpr int UpperPlaneBits(int bits) {
  return bits == 6 ? 4 : bits == 3 ? 2 : bits;
}
static inline constexpr int LowerPlaneBits(int bits) {  // 0: there is none
  return bits == 6 ? 2 : bits == 3 ? 1 : 0;
}

// ---- Groups of dims

static inline constexpr int PackedGroupDims(PackedShape shape, RowFormat format) {
  if (shape.default_group == 0) return format.dim;
  return format.group != 0 ? format.group : shape.default_group;
}
// The last group may be shorter.
static inline constexpr int PackedGroups(PackedShape shape, RowFormat format) {
  const int group = PackedGroupDims(shape, format);
  return (format.dim + group - 1) / group;
}
static inline constexpr int PackedGroupBytes(PackedShape shape) {
  return shape.bias ? 2 * kPackedScaleBytes : kPackedScaleBytes;
}

// ---- K

// Dims of one vector of a plane, and of the smallest run that is whole vectors of every plane: a unit.
static inline constexpr int KVectorDims(int plane_bits) {
  return 8 / plane_bits * kQuadDims;
}
static inline constexpr int KUnitDims(int bits) {
  return KVectorDims(LowerPlaneBits(bits) == 0 ? bits : LowerPlaneBits(bits));
}
static inline constexpr int KUnits(int bits, int dim) {
  return (dim + KUnitDims(bits) - 1) / KUnitDims(bits);
}
static inline constexpr int KPaddedDims(int bits, int dim) {
  return KUnits(bits, dim) * KUnitDims(bits);
}
static inline constexpr int KPlaneBytes(int bits, int plane_bits, int dim) {
  return KPaddedDims(bits, dim) * kTileRows * plane_bits / 8;
}
static inline constexpr int KLowerPlaneAt(int bits, int dim) {
  return KPlaneBytes(bits, UpperPlaneBits(bits), dim);
}
static inline constexpr int KScalesAt(int bits, int dim) {
  return KPlaneBytes(bits, bits, dim);
}
static inline constexpr int KPackedTileBytes(PackedShape shape, RowFormat format) {
  return KScalesAt(shape.bits, format.dim) + PackedGroups(shape, format) * PackedGroupBytes(shape);
}

// ---- V

static inline constexpr int VColumns(int dim) {
  return PadToVector(dim) / kVectorDims;
}
// Bytes before a column of a plane; a column of the 1-bit plane is half of the bits of a vector.
static inline constexpr int VColumnAt(int plane_bits, int column) {
  return plane_bits == 1 ? column / 2 * 64 : column * 32 * plane_bits;
}
static inline constexpr int VPlaneBytes(int plane_bits, int dim) {
  return plane_bits == 1 ? (VColumns(dim) + 1) / 2 * 64 : VColumnAt(plane_bits, VColumns(dim));
}
static inline constexpr int VLowerPlaneAt(int bits, int dim) {
  return VPlaneBytes(UpperPlaneBits(bits), dim);
}
static inline constexpr int VScalesAt(int bits, int dim) {
  const int lower = LowerPlaneBits(bits);
  return VLowerPlaneAt(bits, dim) + (lower == 0 ? 0 : VPlaneBytes(lower, dim));
}
static inline constexpr int VPackedTileBytes(PackedShape shape, RowFormat format) {
  return VScalesAt(shape.bits, format.dim) + PackedGroups(shape, format) * PackedGroupBytes(shape);
}

// ---- One code

// A code's place within its plane: bits [shift, shift + plane bits) of a byte.
struct CodePlace {
  int byte;
  int shift;
};
static inline constexpr CodePlace KCodePlace(int plane_bits, int slot, int d) {
  const int vector_dims = KVectorDims(plane_bits);
  return {d / vector_dims * 64 + slot * kQuadDims + d % kQuadDims, d % vector_dims / kQuadDims * plane_bits};
}
static inline constexpr CodePlace VCodePlace(int plane_bits, int slot, int d) {
  const int column = d / kVectorDims;
  const int row_quad = slot / 4;
  const int byte = VColumnAt(plane_bits, column) + d % kVectorDims * 4 + slot % 4;
  if (plane_bits == 1) return {byte, row_quad + column % 2 * 4};
  const int quads = 8 / plane_bits;  // row quads of a vector
  return {byte + row_quad / quads * 64, row_quad % quads * plane_bits};
}

static_assert(KPackedTileBytes({4, true, 32}, 64) == 512 + 128 && VPackedTileBytes({4, true, 32}, 64) == 640);
static_assert(KPackedTileBytes({8, false, 32}, 80) == 1280 + 3 * 32, "a short last group has a whole scale");
static_assert(KPackedTileBytes({8, true, 64}, RowFormat(64, 16)) == 1024 + 4 * 64);
static_assert(KPackedTileBytes({6, true, 64}, 64) == 512 + 256 + 64 && KLowerPlaneAt(6, 64) == 512);
static_assert(KPackedTileBytes({3, false, 0}, 80) == 96 * 16 * 3 / 8 + 32, "a 1-bit vector is 32 dims");
static_assert(VPackedTileBytes({3, false, 0}, 80) == 5 * 64 + 3 * 64 + 32, "or two columns");
static_assert(KPackedTileBytes({2, false, 0}, 128) == 512 + 32 &&
              VPackedTileBytes({2, false, 0}, 128) == 544);
static_assert(KCodePlace(4, 15, 63).byte == 511 && KCodePlace(4, 15, 63).shift == 4);
static_assert(VCodePlace(4, 15, 63).byte == 511 && VCodePlace(4, 15, 63).shift == 4);
static_assert(VCodePlace(2, 4, 16).byte == 64 && VCodePlace(2, 4, 16).shift == 2);
static_assert(KCodePlace(1, 0, 28).byte == 0 && KCodePlace(1, 0, 28).shift == 7);
static_assert(VCodePlace(1, 12, 17).byte == 4 && VCodePlace(1, 12, 17).shift == 7);

}  // namespace holdfast
