// The baseline half of a packed codec: sizes, the reference decoder, what it refuses and its error bound. The
// grouped codecs are this template over a Format; their kernels are kernels/packed_*.h over theirs.
//
//   struct Format {
//     static constexpr PackedShape kShape;
//     static constexpr int kPlanes;                  // as the kernels' Format
//     static constexpr bool kTakesGroup;             // whether a CodecSpec may name a group
//     static constexpr bool kAlwaysRotated;
//     static constexpr float kMaxMagnitude;
//     // What the code of a K tile is worth. `dim` is the row's.
//     static float Decode(int code, float scale, float bias, int dim);
//     // The K code of what a V tile stores.
//     static int CodeOfValue(int stored, float scale);
//     // Bound on the error of every value of a group of n values of a row of `dim`.
//     static float GroupError(const float* values, int n, int dim);
//   };
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "codec/codec.h"
#include "codec/packed_layout.h"
#include "codec/row_range.h"

namespace holdfast {

template <typename Format>
struct PackedCodec {
  static constexpr PackedShape kShape = Format::kShape;
  static constexpr int kBits = kShape.bits;

  static constexpr int64_t KTileBytes(RowFormat format) { return KPackedTileBytes(kShape, format); }
  static constexpr int64_t VTileBytes(RowFormat format) { return VPackedTileBytes(kShape, format); }
  static_assert(KTileBytes(1) % 16 == 0 && VTileBytes(1) % 16 == 0, "tile sizes are multiples of 16");

  static int BitsAt(const std::byte* plane, CodePlace place, int bits) {
    return std::to_integer<int>(plane[place.byte]) >> place.shift & ((1 << bits) - 1);
  }
  static float F16At(const std::byte* at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return F16ToF32(bits);
  }
  // place(plane bits, slot, d), the tile's lower plane and scales: of the half.
  template <typename Place, typename CodeOf>
  static void DecodeRow(const std::byte* tile, RowFormat format, int slot, int lower_at, int scales_at,
                        Place place, CodeOf code_of, float* row) {
    constexpr int kUpper = UpperPlaneBits(kBits);
    constexpr int kLower = LowerPlaneBits(kBits);
    const int group = PackedGroupDims(kShape, format);
    for (int d = 0; d < format.dim; ++d) {
      const std::byte* scales = tile + scales_at + d / group * PackedGroupBytes(kShape) + slot * 2;
      int code = BitsAt(tile, place(kUpper, slot, d), kUpper);
      if constexpr (kLower != 0) {
        code = code << kLower | BitsAt(tile + lower_at, place(kLower, slot, d), kLower);
      }
      const float scale = F16At(scales);
      const float bias = kShape.bias ? F16At(scales + kPackedScaleBytes) : 0.0f;
      row[d] = Format::Decode(code_of(code, scale), scale, bias, format.dim);
    }
  }
  static void DecodeK(const std::byte* tile, RowFormat format, int slot, float* row) {
    DecodeRow(
        tile, format, slot, KLowerPlaneAt(kBits, format.dim), KScalesAt(kBits, format.dim), KCodePlace,
        [](int code, float) { return code; }, row);
  }
  static void DecodeV(const std::byte* tile, RowFormat format, int slot, float* row) {
    DecodeRow(tile, format, slot, VLowerPlaneAt(kBits, format.dim), VScalesAt(kBits, format.dim), VCodePlace,
              Format::CodeOfValue, row);
  }

  static int FirstUnencodable(const float* row, RowFormat format) {
    return FirstOutside(row, format.dim, Format::kMaxMagnitude);
  }
  static float MaxError(const float* row, RowFormat format) {
    const int group = PackedGroupDims(kShape, format);
    float largest = 0.0f;
    for (int d = 0; d < format.dim; d += group) {
      largest = std::fmax(largest, Format::GroupError(row + d, std::min(group, format.dim - d), format.dim));
    }
    return largest;
  }

  static constexpr Codec Describe(CodecId id, std::string_view name, const CodecKernels& (*kernels)(Isa)) {
    return {.id = id,
            .name = name,
            .integer_dots = true,
            .query_levels = Format::kPlanes == 2 ? 32512 : 127,
            .weight_levels = Format::kPlanes == 2 ? 65535 : 254,
            .bits = kBits,
            .default_group = Format::kTakesGroup ? kShape.default_group : 0,
            .always_rotated = Format::kAlwaysRotated,
            .k_tile_bytes = KTileBytes,
            .v_tile_bytes = VTileBytes,
            .first_unencodable = FirstUnencodable,
            .max_magnitude = Format::kMaxMagnitude,
            .decode_k = DecodeK,
            .decode_v = DecodeV,
            .max_error = MaxError,
            .kernels = kernels};
  }
};

// The K code of V codes that are two's complement.
template <int kBits>
int CodeOfTwosComplement(int stored, float /*scale*/) {
  return stored ^ 1 << (kBits - 1);
}

}  // namespace holdfast
