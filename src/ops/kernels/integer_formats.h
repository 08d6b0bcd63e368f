// How each packed format's codes become vectors for the dot product and its scales floats. Per-ISA kernels
// only.
#pragma once

#include "ops/packed_layout.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {

// Few rows wait for memory: their weights are asked for this far ahead, across the pages at which the
// processor's own prefetching ends.
inline constexpr int64_t kAhead = 6144;

// The bits of 1.5 * 2^23: a dot (below 2^22) that starts from them, or to which they are added, is a float already,
// off by that number.
inline constexpr int32_t kDotShiftBits = 0x4b400000;
inline constexpr float kDotShift = 12582912.0f;

// Vector q of w holds inputs 4q..4q+3 of sixteen outputs, as unsigned bytes.
HF_INLINE void UnpackNibbles(const uint8_t* p, B8x64* w) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const B8x64 both = BLoad(p + 64 * v);
    w[v] = BLow4(both);
    w[v + 4] = BHigh4(both);
  }
}

template <int bits>
HF_INLINE void UnpackCodes(const uint8_t* p, B8x64* w) {
  if constexpr (bits == 8) {
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) w[q] = BLoad(p + 64 * q);
    return;
  } else {
    UnpackNibbles(p, w);
  }
  if constexpr (bits == 5) {
    const B8x64 fifth = BLoad(p + 256), bit = BSet(0x10);
    w[0] = BOr(w[0], BAnd(BShiftLeft<4>(fifth), bit));
    w[1] = BOr(w[1], BAnd(BShiftLeft<3>(fifth), bit));
    w[2] = BOr(w[2], BAnd(BShiftLeft<2>(fifth), bit));
    w[3] = BOr(w[3], BAnd(BShiftLeft<1>(fifth), bit));
    w[4] = BOr(w[4], BAnd(fifth, bit));
    w[5] = BOr(w[5], BAnd(BShiftRight<1>(fifth), bit));
    w[6] = BOr(w[6], BAnd(BShiftRight<2>(fifth), bit));
    w[7] = BOr(w[7], BAnd(BShiftRight<3>(fifth), bit));
  }
  if constexpr (bits == 6) {
    const B8x64 pair = BSet(0x30);
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const B8x64 upper = BLoad(p + 256 + 64 * j);
      w[4 * j] = BOr(w[4 * j], BAnd(BShiftLeft<4>(upper), pair));
      w[4 * j + 1] = BOr(w[4 * j + 1], BAnd(BShiftLeft<2>(upper), pair));
      w[4 * j + 2] = BOr(w[4 * j + 2], BAnd(upper, pair));
      w[4 * j + 3] = BOr(w[4 * j + 3], BAnd(BShiftRight<2>(upper), pair));
    }
  }
}

// The scales of one K block of sixteen outputs. With 16 inputs a scale (q6_K), second is that of the upper
// half.
struct BlockScales {
  F32x16 scale, second, minimum;
};

template <int format>
HF_INLINE BlockScales LoadScales(const uint8_t* records, int64_t block) {
  constexpr PackedTraits traits = kPackedTraits[format];
  BlockScales s;
  if constexpr (traits.record_inputs == kBlockInputs) {
    const uint8_t* p = records + block * traits.record_bytes;
    s.scale = LoadF16(p);
    if constexpr (traits.has_min) s.minimum = LoadF16(p + 32);
  } else {
    const uint8_t* p = records + (block >> 3) * traits.record_bytes;
    const int64_t sub = block & 7;
    if constexpr (format == kPackedQ6_K) {
      const F32x16 d = LoadF16(p);
      s.scale = Mul(d, LoadI8AsF32(p + 32 + 32 * sub));
      s.second = Mul(d, LoadI8AsF32(p + 48 + 32 * sub));
    } else {
      s.scale = Mul(LoadF16(p), LoadU8AsF32(p + 64 + 32 * sub));
      s.minimum = Neg(Mul(LoadF16(p + 32), LoadU8AsF32(p + 80 + 32 * sub)));
    }
  }
  return s;
}

}  // namespace holdfast::HOLDFAST_ISA_NS
