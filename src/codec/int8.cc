// int8: per row symmetric, scale = absmax / 127 as f16, codes of the stored (rounded) scale.
//
// Where absmax / 127 rounds down so far that the largest code would pass 127.5 (subnormal scales, rows whose
// largest value is below 127 * 2^-14), the next larger f16 is the scale: a value's error is at most half the
// stored scale, always. A row of zeros has scale 0. Values beyond 65504 * 127 are refused.
#include <cstring>

#include "base/float16.h"
#include "codec/codec.h"
#include "codec/int8_layout.h"
#include "codec/row_range.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kInt8Kernels)

namespace {

constexpr float kMaxMagnitude = kInt8LargestScale * kInt8Codes;
static_assert(kMaxMagnitude == 8319008.0f);

constexpr int64_t KTileBytes(RowFormat format) {
  return Int8KCodeBytes(format.dim) + kInt8ScaleBytes;
}
constexpr int64_t VTileBytes(RowFormat format) {
  return Int8VCodeBytes(format.dim) + kInt8ScaleBytes;
}
static_assert(KTileBytes(1) % 16 == 0 && VTileBytes(1) % 16 == 0, "tile sizes are multiples of 16");
static_assert(KTileBytes(64) == 1056 && VTileBytes(64) == 1056 && KTileBytes(1) == 96 &&
              VTileBytes(1) == 288);

float ScaleAt(const std::byte* scales, int slot) {
  uint16_t bits;
  std::memcpy(&bits, scales + slot * 2, sizeof bits);
  return F16ToF32(bits);
}

void DecodeK(const std::byte* tile, RowFormat format, int slot, float* row) {
  const int dim = format.dim;
  const float scale = ScaleAt(tile + Int8KCodeBytes(dim), slot);
  for (int d = 0; d < dim; ++d) {
    const int code = std::to_integer<int>(tile[Int8KOffset(slot, d)]) - kInt8KBias;
    row[d] = static_cast<float>(code) * scale;
  }
}

void DecodeV(const std::byte* tile, RowFormat format, int slot, float* row) {
  const int dim = format.dim;
  const float scale = ScaleAt(tile + Int8VCodeBytes(dim), slot);
  for (int d = 0; d < dim; ++d) {
    const auto code = static_cast<int8_t>(std::to_integer<uint8_t>(tile[Int8VOffset(dim, slot, d)]));
    row[d] = static_cast<float>(code) * scale;
  }
}

int FirstUnencodable(const float* row, RowFormat format) {
  return FirstOutside(row, format.dim, kMaxMagnitude);
}

// Half the scale that encode stores. The factor covers the rounding of value / scale in float.
float MaxError(const float* row, RowFormat format) {
  const float absmax = AbsMax(row, format.dim);
  uint16_t bits = F32ToF16(absmax / kInt8Codes);
  if (absmax > kInt8ClipLimit * F16ToF32(bits)) ++bits;
  return 0.5001f * F16ToF32(bits);
}

}  // namespace

extern const Codec kInt8Codec;
constinit const Codec kInt8Codec = {
    .id = CodecId::kInt8,
    .name = "int8",
    .integer_dots = true,
    .query_levels = 32512,
    .weight_levels = 65535,
    .bits = 8,
    .default_group = 0,
    .always_rotated = false,
    .k_tile_bytes = KTileBytes,
    .v_tile_bytes = VTileBytes,
    .first_unencodable = FirstUnencodable,
    .max_magnitude = kMaxMagnitude,
    .decode_k = DecodeK,
    .decode_v = DecodeV,
    .max_error = MaxError,
    .kernels = [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kInt8Kernels); }};

}  // namespace holdfast
