// The baseline half of a float codec: sizes, the reference decoder, what it refuses and its error bound.
// f32, f16 and bf16 are this template over a Format; their kernels are kernels/float_kernels.h over theirs.
//
//   struct Format {
//     using Element = ...;                            // as stored
//     static float Decode(Element e);
//     static constexpr float kMaxMagnitude;           // largest finite value
//     static constexpr float kRelativeError;          // half a unit in the last place, of 1
//     static constexpr float kAbsoluteError;          // half the smallest subnormal
//   };
#pragma once

#include <cmath>
#include <cstring>

#include "codec/codec.h"
#include "codec/float_layout.h"
#include "codec/row_range.h"

namespace holdfast {

template <typename Format>
struct FloatCodec {
  using Element = typename Format::Element;
  static constexpr auto kElementBytes = static_cast<int64_t>(sizeof(Element));

  static constexpr int64_t KTileBytes(RowFormat format) { return kTileRows * format.dim * kElementBytes; }
  static constexpr int64_t VTileBytes(RowFormat format) {
    return kTileRows * PadToVector(format.dim) * kElementBytes;
  }
  static_assert(KTileBytes(1) % 16 == 0 && VTileBytes(1) % 16 == 0, "tile sizes are multiples of 16");
  static_assert(KTileBytes(64) == 16 * 64 * kElementBytes && VTileBytes(80) == 16 * 80 * kElementBytes,
                "a float row has no metadata");
  static_assert(FloatVOffset(80, 15, 79) == 16 * 80 - 1 && FloatVOffset(80, 0, 64) == 16 * 64,
                "the last slice may be narrower and ends the tile");

  static float DecodeAt(const std::byte* tile, int offset) {
    Element e;
    std::memcpy(&e, tile + offset * kElementBytes, sizeof e);
    return Format::Decode(e);
  }
  static void DecodeK(const std::byte* tile, RowFormat format, int slot, float* row) {
    for (int d = 0; d < format.dim; ++d) row[d] = DecodeAt(tile, FloatKOffset(slot, d));
  }
  static void DecodeV(const std::byte* tile, RowFormat format, int slot, float* row) {
    for (int d = 0; d < format.dim; ++d) row[d] = DecodeAt(tile, FloatVOffset(format.dim, slot, d));
  }

  static int FirstUnencodable(const float* row, RowFormat format) {
    return FirstOutside(row, format.dim, Format::kMaxMagnitude);
  }
  // Rounding to nearest: half a unit in the last place of the largest value, or half the smallest subnormal.
  static float MaxError(const float* row, RowFormat format) {
    return std::fmax(AbsMax(row, format.dim) * Format::kRelativeError, Format::kAbsoluteError);
  }

  static constexpr Codec Describe(CodecId id, std::string_view name, const CodecKernels& (*kernels)(Isa)) {
    return {.id = id,
            .name = name,
            .integer_dots = false,
            .query_levels = 0,
            .weight_levels = 0,
            .bits = static_cast<int>(8 * kElementBytes),
            .default_group = 0,
            .always_rotated = false,
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

}  // namespace holdfast
