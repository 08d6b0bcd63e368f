// Rows into packed tiles (packed_layout.h), for the Format of packed_format.h, and the table of its kernels.
// Included by kernel files only.
#pragma once

#include "codec/kernels/latent.h"
#include "codec/kernels/packed_keys.h"
#include "codec/kernels/packed_values.h"

namespace holdfast::HOLDFAST_ISA_NS {

// The value of one f16, and the f16 nearest to a value.
HF_INLINE float F16Value(uint16_t bits) {
  alignas(32) uint16_t half[16] = {bits};
  alignas(64) float value[16];
  Store(value, LoadF16(half));
  return value[0];
}
HF_INLINE uint16_t NearestF16(float x) {
  alignas(32) uint16_t half[16];
  StoreF16(half, Set(x));
  return half[0];
}

// A format may measure K rows in a way of their own.
template <typename Format, bool kKey>
struct EncoderChoice {
  using Type = typename Format::Encoder;
};
template <typename Format>
requires requires {
  typename Format::KeyEncoder;
}
struct EncoderChoice<Format, true> {
  using Type = typename Format::KeyEncoder;
};
template <typename Format, bool kKey>
using EncoderOf = typename EncoderChoice<Format, kKey>::Type;

template <typename Format>
struct PackedEncode {
  static constexpr PackedShape kShape = Format::kShape;
  static constexpr int kBits = kShape.bits;
  using P = PackedVectors<kBits>;

  // Sixteen dims from d on, into one plane of a K tile. words: a code a byte, four dims a word.
  template <int kPlaneBits>
  HF_INLINE void StoreKeyPlane(std::byte* plane, int slot, int d, int dim, const uint32_t* words) {
    if constexpr (kPlaneBits == 8) {
      const int quads = (dim - d + 3) / 4 < 4 ? (dim - d + 3) / 4 : 4;
      for (int j = 0; j < quads; ++j) __builtin_memcpy(plane + (d / 4 + j) * 64 + slot * 4, words + j, 4);
    } else if constexpr (kPlaneBits == 4) {
      const int pairs = dim - d > 8 ? 2 : 1;
      for (int j = 0; j < pairs; ++j) {
        const uint32_t packed = words[2 * j] | words[2 * j + 1] << 4;
        __builtin_memcpy(plane + (d / 8 + j) * 64 + slot * 4, &packed, 4);
      }
    } else if constexpr (kPlaneBits == 2) {
      const uint32_t packed = words[0] | words[1] << 2 | words[2] << 4 | words[3] << 6;
      __builtin_memcpy(plane + d / 16 * 64 + slot * 4, &packed, 4);
    } else {
      // Half of the bits of a vector of 32 dims; the first half's store clears the second.
      std::byte* at = plane + d / 32 * 64 + slot * 4;
      const uint32_t half = words[0] | words[1] << 1 | words[2] << 2 | words[3] << 3;
      uint32_t packed = 0;
      if (d % 32 != 0) __builtin_memcpy(&packed, at, 4);
      packed = d % 32 == 0 ? half : packed | half << 4;
      __builtin_memcpy(at, &packed, 4);
    }
  }

  HF_INLINE void StoreKeyCodes(std::byte* tile, int slot, int d, int dim, I32x16 codes) {
    alignas(16) uint32_t words[4];
    if constexpr (P::kHasLower) {
      StoreBytes(words, IAnd(codes, ISet((1 << P::kLowerBits) - 1)));
      StoreKeyPlane<P::kLowerBits>(tile + KLowerPlaneAt(kBits, dim), slot, d, dim, words);
      codes = IShiftRight<P::kLowerBits>(codes);
    }
    StoreBytes(words, codes);
    StoreKeyPlane<P::kUpperBits>(tile, slot, d, dim, words);
  }

  // A column of one plane of a V tile: this row's bits of sixteen 32-bit lanes.
  HF_INLINE void StoreValuePlane(std::byte* plane, int plane_bits, int slot, int column, I32x16 codes) {
    const CodePlace place = VCodePlace(plane_bits, slot, column * kVectorDims);
    const int shift = place.byte % 4 * 8 + place.shift;
    auto* at = reinterpret_cast<int32_t*>(plane + place.byte / 64 * 64);
    const auto mine = static_cast<int32_t>(((1u << plane_bits) - 1u) << shift);
    const I32x16 kept = IAnd(ILoad(at), ISet(~mine));
    const I32x16 moved = IAnd(IMul(codes, ISet(static_cast<int32_t>(1u << shift))), ISet(mine));
    IStore(at, IOr(kept, moved));
  }

  HF_INLINE void StoreValueCodes(std::byte* tile, int slot, int d, int dim, I32x16 codes) {
    const int column = d / kVectorDims;
    if constexpr (P::kHasLower) {
      StoreValuePlane(tile + VLowerPlaneAt(kBits, dim), P::kLowerBits, slot, column, codes);
      codes = IShiftRight<P::kLowerBits>(codes);
    }
    StoreValuePlane(tile, P::kUpperBits, slot, column, codes);
  }

  // Both halves: group by group, sixteen dims at a time.
  template <bool kKey>
  HF_INLINE void Encode(const float* row, RowFormat format, int slot, std::byte* tile) {
    const int dim = format.dim;
    const int group = PackedGroupDims(kShape, format);
    std::byte* scales = tile + (kKey ? KScalesAt(kBits, dim) : VScalesAt(kBits, dim)) + slot * 2;
    EncoderOf<Format, kKey> encoder(format);
    for (int begin = 0; begin < dim; begin += group, scales += PackedGroupBytes(kShape)) {
      const int end = begin + group < dim ? begin + group : dim;
      encoder.Measure(row + begin, end - begin);
      __builtin_memcpy(scales, &encoder.scale, 2);
      if constexpr (kShape.bias) __builtin_memcpy(scales + kPackedScaleBytes, &encoder.bias, 2);
      for (int d = begin; d < end; d += 16) {
        const int n = end - d < 16 ? end - d : 16;
        const I32x16 codes = encoder.Codes(LoadFirst(row + d, n));
        if constexpr (kKey) {
          StoreKeyCodes(tile, slot, d, dim, codes);
        } else {
          StoreValueCodes(tile, slot, d, dim, encoder.ValueCodes(codes));
        }
      }
    }
  }

  static void EncodeK(const float* row, RowFormat format, int slot, std::byte* tile) {
    Encode<true>(row, format, slot, tile);
  }
  static void EncodeV(const float* row, RowFormat format, int slot, std::byte* tile) {
    Encode<false>(row, format, slot, tile);
  }
};

template <typename Format>
HF_INLINE constexpr CodecKernels PackedKernels() {
  return {.key = {PackedKeys<Format>::PreparedBytes, PackedKeys<Format>::Prepare, PackedKeys<Format>::Score},
          .value = {PackedValues<Format>::Accumulate},
          .latent_value = {AccumulateLatent<typename PackedKeys<Format>::LatentRows>},
          .encode_k = PackedEncode<Format>::EncodeK,
          .encode_v = PackedEncode<Format>::EncodeV};
}

}  // namespace holdfast::HOLDFAST_ISA_NS
