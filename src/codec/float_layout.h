// Where a value lies in a tile of a float codec (f32, f16, bf16), for both halves.
//
//   K tile  [dim][16 rows]: a vector of 16 lanes is one dim of 16 rows, so a score needs no horizontal sum.
//   V tile  [slice][16 rows][slice width]: dims are padded to whole vectors and cut into slices of 64, so
//   that the
//           accumulators of a slice stay in registers while its rows are read in order.
//
// Shared by the baseline decoder and the per-ISA kernels; `static`, so that no code compiled for a strong
// instruction set can be linked into a weaker one's path.
#pragma once

#include <cstdint>

#include "codec/codec_kernels.h"

namespace holdfast {

inline constexpr int kVectorDims = 16;  // V dims are padded to whole vectors
inline constexpr int kSliceDims = 64;   // four vectors

static inline constexpr int PadToVector(int dim) {
  return (dim + kVectorDims - 1) / kVectorDims * kVectorDims;
}

// Width of the V slice that starts at dim `first`, a multiple of kVectorDims.
static inline constexpr int SliceWidth(int dim, int first) {
  const int rest = PadToVector(dim) - first;
  return rest < kSliceDims ? rest : kSliceDims;
}

// Elements before (slot, d) in a tile.
static inline constexpr int FloatKOffset(int slot, int d) {
  return d * kTileRows + slot;
}
static inline constexpr int FloatVOffset(int dim, int slot, int d) {
  const int first = d / kSliceDims * kSliceDims;
  return first * kTileRows + slot * SliceWidth(dim, first) + (d - first);
}

}  // namespace holdfast
