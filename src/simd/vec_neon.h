// vec.h on NEON (Armv8.2 with dot products): four registers, lanes 4*i .. 4*i+3 in v[i].
#pragma once

#include <arm_neon.h>

namespace holdfast::neon {

struct F32x16 {
  float32x4_t v[4];
};
struct I32x16 {
  int32x4_t v[4];
};
struct B8x64 {
  uint8x16_t v[4];
};

// Register i of the result is op(i).
template <typename V, typename Op>
HF_INLINE V Registers(Op op) {
  return {{op(0), op(1), op(2), op(3)}};
}
template <typename Op>
HF_INLINE F32x16 FRegisters(Op op) {
  return Registers<F32x16>(op);
}
template <typename Op>
HF_INLINE I32x16 IRegisters(Op op) {
  return Registers<I32x16>(op);
}
template <typename Op>
HF_INLINE B8x64 BRegisters(Op op) {
  return Registers<B8x64>(op);
}

HF_INLINE F32x16 Set(float x) {
  return FRegisters([&](int) { return vdupq_n_f32(x); });
}
HF_INLINE F32x16 Zero() {
  return Set(0.0f);
}
HF_INLINE F32x16 Load(const float* p) {
  return FRegisters([&](int i) { return vld1q_f32(p + 4 * i); });
}
HF_INLINE void Store(float* p, F32x16 a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
// Sixteen-bit patterns four at a time, from memory of any alignment.
HF_INLINE uint16x4_t LoadU16x4(const void* p, int i) {
  return vreinterpret_u16_u8(vld1_u8(static_cast<const uint8_t*>(p) + 8 * i));
}
HF_INLINE void StoreU16x4(void* p, int i, uint16x4_t a) {
  vst1_u8(static_cast<uint8_t*>(p) + 8 * i, vreinterpret_u8_u16(a));
}
HF_INLINE F32x16 LoadF16(const void* p) {
  return FRegisters([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(LoadU16x4(p, i))); });
}
HF_INLINE F32x16 LoadBf16(const void* p) {
  return FRegisters([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(LoadU16x4(p, i), 16)); });
}
HF_INLINE void StoreF16(void* p, F32x16 a) {
  for (int i = 0; i < 4; ++i) StoreU16x4(p, i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
HF_INLINE void StoreBf16(void* p, F32x16 a) {
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a.v[i]);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t sum = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    StoreU16x4(p, i, vshrn_n_u32(vbslq_u32(vceqq_f32(a.v[i], a.v[i]), sum, quiet), 16));
  }
}
HF_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return FRegisters([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
HF_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return FRegisters([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
HF_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return FRegisters([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
HF_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return FRegisters([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
HF_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return FRegisters([&](int i) { return vmaxq_f32(a.v[i], b.v[i]); });
}
HF_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return FRegisters([&](int i) { return vminq_f32(a.v[i], b.v[i]); });
}
HF_INLINE F32x16 Sqrt(F32x16 a) {
  return FRegisters([&](int i) { return vsqrtq_f32(a.v[i]); });
}
HF_INLINE F32x16 Abs(F32x16 a) {
  return FRegisters([&](int i) { return vabsq_f32(a.v[i]); });
}
HF_INLINE F32x16 Neg(F32x16 a) {
  return FRegisters([&](int i) { return vnegq_f32(a.v[i]); });
}
HF_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return FRegisters([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
HF_INLINE F32x16 LoadFirst(const float* p, int n) {
  float lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return Load(lanes);
}
HF_INLINE void StoreFirst(float* p, F32x16 a, int n) {
  float lanes[16];
  Store(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
HF_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return FRegisters([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), x.v[i], y.v[i]); });
}
HF_INLINE float HSum(F32x16 a) {
  const float32x4_t s4 = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
  return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}
HF_INLINE float HMax(F32x16 a) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[2]), vmaxq_f32(a.v[1], a.v[3])));
}
HF_INLINE F32x16 HMaxEach(const F32x16 (&v)[8]) {
  float lanes[16] = {};
  for (int i = 0; i < 8; ++i) lanes[i] = HMax(v[i]);
  return Load(lanes);
}
HF_INLINE F32x16 HSumEach(const F32x16 (&v)[8]) {
  float lanes[16] = {};
  for (int i = 0; i < 8; ++i) lanes[i] = HSum(v[i]);
  return Load(lanes);
}
template <int n>
HF_INLINE F32x16 Butterfly(F32x16 a) {
  static_assert(n == 1 || n == 2 || n == 4 || n == 8);
  const auto sum = [&](int i, int j) { return vaddq_f32(a.v[i], a.v[j]); };
  const auto difference = [&](int i, int j) { return vsubq_f32(a.v[i], a.v[j]); };
  if constexpr (n == 8) return {{sum(0, 2), sum(1, 3), difference(0, 2), difference(1, 3)}};
  if constexpr (n == 4) return {{sum(0, 1), difference(0, 1), sum(2, 3), difference(2, 3)}};
  return FRegisters([&](int i) {
    const float32x4_t x = a.v[i];
    if constexpr (n == 1) {
      const float32x4_t even = vtrn1q_f32(x, x), odd = vtrn2q_f32(x, x);
      return vtrn1q_f32(vaddq_f32(even, odd), vsubq_f32(even, odd));
    }
    const float32x4_t low = vcombine_f32(vget_low_f32(x), vget_low_f32(x));
    const float32x4_t high = vcombine_f32(vget_high_f32(x), vget_high_f32(x));
    return vcombine_f32(vget_low_f32(vaddq_f32(low, high)), vget_low_f32(vsubq_f32(low, high)));
  });
}

HF_INLINE I32x16 ISet(int32_t x) {
  return IRegisters([&](int) { return vdupq_n_s32(x); });
}
HF_INLINE I32x16 IZero() {
  return ISet(0);
}
HF_INLINE I32x16 ILoad(const int32_t* p) {
  return IRegisters([&](int i) { return vld1q_s32(p + 4 * i); });
}
HF_INLINE void IStore(int32_t* p, I32x16 a) {
  for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, a.v[i]);
}
HF_INLINE I32x16 IAdd(I32x16 a, I32x16 b) {
  return IRegisters([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
}
HF_INLINE I32x16 ISub(I32x16 a, I32x16 b) {
  return IRegisters([&](int i) { return vsubq_s32(a.v[i], b.v[i]); });
}
HF_INLINE I32x16 IMul(I32x16 a, I32x16 b) {
  return IRegisters([&](int i) { return vmulq_s32(a.v[i], b.v[i]); });
}
HF_INLINE I32x16 IAnd(I32x16 a, I32x16 b) {
  return IRegisters([&](int i) { return vandq_s32(a.v[i], b.v[i]); });
}
HF_INLINE I32x16 IOr(I32x16 a, I32x16 b) {
  return IRegisters([&](int i) { return vorrq_s32(a.v[i], b.v[i]); });
}
template <int n>
HF_INLINE I32x16 IShiftRight(I32x16 a) {
  return IRegisters([&](int i) { return vshrq_n_s32(a.v[i], n); });
}
HF_INLINE void StoreBytes(void* p, I32x16 a) {
  const int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
  const int16x8_t high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  vst1q_s8(static_cast<int8_t*>(p), vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
HF_INLINE F32x16 ToF32(I32x16 a) {
  return FRegisters([&](int i) { return vcvtq_f32_s32(a.v[i]); });
}
HF_INLINE I32x16 RoundToI32(F32x16 a) {
  return IRegisters([&](int i) { return vcvtnq_s32_f32(a.v[i]); });
}
HF_INLINE F32x16 Fraction(F32x16 a) {
  return Sub(a, ToF32(RoundToI32(a)));
}
HF_INLINE F32x16 Exponent2(I32x16 a) {
  return FRegisters(
      [&](int i) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(a.v[i], vdupq_n_s32(127)), 23)); });
}
HF_INLINE F32x16 ScaledFrom(F32x16 low, F32x16 x, F32x16 a, F32x16 n) {
  return SelectLess(x, low, Zero(), Mul(a, Exponent2(RoundToI32(n))));
}
HF_INLINE F32x16 LoadU8AsF32(const void* p) {
  const uint8x16_t b = vld1q_u8(static_cast<const uint8_t*>(p));
  const uint16x8_t low = vmovl_u8(vget_low_u8(b)), high = vmovl_u8(vget_high_u8(b));
  return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
           vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
}
HF_INLINE F32x16 LoadI8AsF32(const void* p) {
  const int8x16_t b = vld1q_s8(static_cast<const int8_t*>(p));
  const int16x8_t low = vmovl_s8(vget_low_s8(b)), high = vmovl_s8(vget_high_s8(b));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}

HF_INLINE B8x64 BLoad(const void* p) {
  return BRegisters([&](int i) { return vld1q_u8(static_cast<const uint8_t*>(p) + 16 * i); });
}
HF_INLINE void BStore(void* p, B8x64 a) {
  for (int i = 0; i < 4; ++i) vst1q_u8(static_cast<uint8_t*>(p) + 16 * i, a.v[i]);
}
HF_INLINE B8x64 BBroadcast4(const void* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, 4);
  return BRegisters([&](int) { return vreinterpretq_u8_u32(vdupq_n_u32(word)); });
}
HF_INLINE B8x64 BSet(uint8_t x) {
  return BRegisters([&](int) { return vdupq_n_u8(x); });
}
HF_INLINE B8x64 BAnd(B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vandq_u8(a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BOr(B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vorrq_u8(a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BXor(B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return veorq_u8(a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BSelect(B8x64 mask, B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vbslq_u8(mask.v[i], a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BAdd(B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vaddq_u8(a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BSub(B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vsubq_u8(a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BMin(B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vminq_u8(a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BSubSat(B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vqsubq_u8(a.v[i], b.v[i]); });
}
HF_INLINE B8x64 BCountGreater(B8x64 n, B8x64 a, B8x64 b) {
  return BRegisters([&](int i) { return vsubq_u8(n.v[i], vcgtq_u8(a.v[i], b.v[i])); });
}
template <int n>
HF_INLINE B8x64 BShiftRight(B8x64 a) {
  return BRegisters([&](int i) { return vshrq_n_u8(a.v[i], n); });
}
template <int n>
HF_INLINE B8x64 BShiftLeft(B8x64 a) {
  return BRegisters([&](int i) { return vshlq_n_u8(a.v[i], n); });
}
template <int n>
HF_INLINE B8x64 BLooseShiftRight(B8x64 a) {
  return BShiftRight<n>(a);
}
template <int n>
HF_INLINE B8x64 BLooseShiftLeft(B8x64 a) {
  return BShiftLeft<n>(a);
}
HF_INLINE B8x64 BLow4(B8x64 a) {
  return BAnd(a, BSet(0x0f));
}
HF_INLINE B8x64 BHigh4(B8x64 a) {
  return BShiftRight<4>(a);
}

HF_INLINE B8x64 BBroadcast16(const void* p) {
  return BRegisters([&](int) { return vld1q_u8(static_cast<const uint8_t*>(p)); });
}
HF_INLINE B8x64 BLookup16(B8x64 table, B8x64 index) {
  return BRegisters([&](int i) { return vqtbl1q_u8(table.v[i], index.v[i]); });
}
// The low 16 bits of four lanes of a, then of b.
HF_INLINE uint16x8_t PackWords(int32x4_t a, int32x4_t b) {
  return vreinterpretq_u16_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b)));
}
HF_INLINE B8x64 PackLevels(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  return BRegisters([&](int i) {
    return vcombine_u8(vmovn_u16(PackWords(a.v[i], b.v[i])), vmovn_u16(PackWords(c.v[i], d.v[i])));
  });
}
HF_INLINE void PackLevels16(I32x16 a, I32x16 b, I32x16 c, I32x16 d, B8x64* upper, B8x64* lower) {
  *lower = PackLevels(a, b, c, d);
  *upper = BRegisters([&](int i) {
    return vcombine_u8(vshrn_n_u16(PackWords(a.v[i], b.v[i]), 8), vshrn_n_u16(PackWords(c.v[i], d.v[i]), 8));
  });
}

// The dot product multiplies bytes of like sign only: u * s = (u - 128) * s + 128 * s, and flipping a byte's
// top bit subtracts 128 from it as a signed one.
HF_INLINE I32x16 DotU8I8(I32x16 acc, B8x64 u, B8x64 s) {
  return IRegisters([&](int i) {
    const int8x16_t centred = vreinterpretq_s8_u8(veorq_u8(u.v[i], vdupq_n_u8(0x80)));
    const int8x16_t bytes = vreinterpretq_s8_u8(s.v[i]);
    const int32x4_t minus128 = vdotq_s32(vdupq_n_s32(0), bytes, vdupq_n_s8(-128));
    return vsubq_s32(vdotq_s32(acc.v[i], centred, bytes), minus128);
  });
}
HF_INLINE I32x16 DotU7I8(I32x16 acc, B8x64 u, B8x64 s) {
  return IRegisters(
      [&](int i) { return vdotq_s32(acc.v[i], vreinterpretq_s8_u8(u.v[i]), vreinterpretq_s8_u8(s.v[i])); });
}
HF_INLINE void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

}  // namespace holdfast::neon
