// vec.h in plain C++: arrays and loops, for any processor and as the other tiers' yardstick.
#pragma once

#include <cmath>

#include "base/float16.h"

namespace holdfast::scalar {

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct B8x64 {
  uint8_t v[64];
};

// Lane i of the result is op(i).
template <typename V, int kLanes, typename Op>
HF_INLINE V Lanes(Op op) {
  V r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = op(i);
  return r;
}
template <typename Op>
HF_INLINE F32x16 FLanes(Op op) {
  return Lanes<F32x16, 16>(op);
}
template <typename Op>
HF_INLINE I32x16 ILanes(Op op) {
  return Lanes<I32x16, 16>(op);
}
template <typename Op>
HF_INLINE B8x64 BLanes(Op op) {
  return Lanes<B8x64, 64>([&](int i) { return static_cast<uint8_t>(op(i)); });
}

template <typename V>
HF_INLINE V LoadAs(const void* p) {
  V r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
struct U16x16 {
  uint16_t v[16];
};

HF_INLINE F32x16 Set(float x) {
  return FLanes([&](int) { return x; });
}
HF_INLINE F32x16 Zero() {
  return Set(0.0f);
}
HF_INLINE F32x16 Load(const float* p) {
  return LoadAs<F32x16>(p);
}
HF_INLINE void Store(float* p, F32x16 a) {
  __builtin_memcpy(p, &a, sizeof a);
}
HF_INLINE F32x16 LoadF16(const void* p) {
  const U16x16 h = LoadAs<U16x16>(p);
  return FLanes([&](int i) { return F16ToF32(h.v[i]); });
}
HF_INLINE F32x16 LoadBf16(const void* p) {
  const U16x16 h = LoadAs<U16x16>(p);
  return FLanes([&](int i) { return Bf16ToF32(h.v[i]); });
}
HF_INLINE void StoreF16(void* p, F32x16 a) {
  const U16x16 h = Lanes<U16x16, 16>([&](int i) { return F32ToF16(a.v[i]); });
  __builtin_memcpy(p, &h, sizeof h);
}
HF_INLINE void StoreBf16(void* p, F32x16 a) {
  const U16x16 h = Lanes<U16x16, 16>([&](int i) { return F32ToBf16(a.v[i]); });
  __builtin_memcpy(p, &h, sizeof h);
}
HF_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return FLanes([&](int i) { return a.v[i] + b.v[i]; });
}
HF_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return FLanes([&](int i) { return a.v[i] - b.v[i]; });
}
HF_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return FLanes([&](int i) { return a.v[i] * b.v[i]; });
}
HF_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return FLanes([&](int i) { return a.v[i] / b.v[i]; });
}
HF_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return FLanes([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
HF_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return FLanes([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
HF_INLINE F32x16 Sqrt(F32x16 a) {
  return FLanes([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
HF_INLINE F32x16 Abs(F32x16 a) {
  return FLanes([&](int i) { return __builtin_fabsf(a.v[i]); });
}
HF_INLINE F32x16 Neg(F32x16 a) {
  return FLanes([&](int i) { return -a.v[i]; });
}
HF_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return FLanes([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
HF_INLINE F32x16 LoadFirst(const float* p, int n) {
  F32x16 r = Zero();
  for (int i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
HF_INLINE void StoreFirst(float* p, F32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
HF_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return FLanes([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}
HF_INLINE float HSum(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  }
  return a.v[0];
}
HF_INLINE float HMax(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}

HF_INLINE I32x16 ISet(int32_t x) {
  return ILanes([&](int) { return x; });
}
HF_INLINE I32x16 IZero() {
  return ISet(0);
}
HF_INLINE I32x16 ILoad(const int32_t* p) {
  return LoadAs<I32x16>(p);
}
HF_INLINE void IStore(int32_t* p, I32x16 a) {
  __builtin_memcpy(p, &a, sizeof a);
}
// Unsigned arithmetic wraps, as the vector instructions do.
HF_INLINE uint32_t Bits(int32_t x) {
  return static_cast<uint32_t>(x);
}
HF_INLINE I32x16 IAdd(I32x16 a, I32x16 b) {
  return ILanes([&](int i) { return static_cast<int32_t>(Bits(a.v[i]) + Bits(b.v[i])); });
}
HF_INLINE I32x16 ISub(I32x16 a, I32x16 b) {
  return ILanes([&](int i) { return static_cast<int32_t>(Bits(a.v[i]) - Bits(b.v[i])); });
}
HF_INLINE I32x16 IMul(I32x16 a, I32x16 b) {
  return ILanes([&](int i) { return static_cast<int32_t>(Bits(a.v[i]) * Bits(b.v[i])); });
}
template <int n>
HF_INLINE I32x16 IShiftRight(I32x16 a) {
  return ILanes([&](int i) { return a.v[i] >> n; });
}
HF_INLINE void StoreBytes(void* p, I32x16 a) {
  uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(a.v[i] & 0xff);
  __builtin_memcpy(p, bytes, sizeof bytes);
}
HF_INLINE F32x16 ToF32(I32x16 a) {
  return FLanes([&](int i) { return static_cast<float>(a.v[i]); });
}
HF_INLINE I32x16 RoundToI32(F32x16 a) {
  return ILanes([&](int i) { return static_cast<int32_t>(__builtin_lrintf(a.v[i])); });
}
HF_INLINE F32x16 Exponent2(I32x16 a) {
  return FLanes([&](int i) { return __builtin_bit_cast(float, Bits(a.v[i] + 127) << 23); });
}
HF_INLINE F32x16 LoadU8AsF32(const void* p) {
  const auto* bytes = static_cast<const uint8_t*>(p);
  return FLanes([&](int i) { return static_cast<float>(bytes[i]); });
}
HF_INLINE F32x16 LoadI8AsF32(const void* p) {
  const auto* bytes = static_cast<const int8_t*>(p);
  return FLanes([&](int i) { return static_cast<float>(bytes[i]); });
}

HF_INLINE B8x64 BLoad(const void* p) {
  return LoadAs<B8x64>(p);
}
HF_INLINE void BStore(void* p, B8x64 a) {
  __builtin_memcpy(p, &a, sizeof a);
}
HF_INLINE B8x64 BBroadcast4(const void* p) {
  const auto* bytes = static_cast<const uint8_t*>(p);
  return BLanes([&](int i) { return bytes[i % 4]; });
}
HF_INLINE B8x64 BSet(uint8_t x) {
  return BLanes([&](int) { return x; });
}
HF_INLINE B8x64 BAnd(B8x64 a, B8x64 b) {
  return BLanes([&](int i) { return a.v[i] & b.v[i]; });
}
HF_INLINE B8x64 BOr(B8x64 a, B8x64 b) {
  return BLanes([&](int i) { return a.v[i] | b.v[i]; });
}
HF_INLINE B8x64 BXor(B8x64 a, B8x64 b) {
  return BLanes([&](int i) { return a.v[i] ^ b.v[i]; });
}
template <int n>
HF_INLINE B8x64 BShiftRight(B8x64 a) {
  return BLanes([&](int i) { return a.v[i] >> n; });
}
template <int n>
HF_INLINE B8x64 BShiftLeft(B8x64 a) {
  return BLanes([&](int i) { return a.v[i] << n; });
}
HF_INLINE B8x64 BLow4(B8x64 a) {
  return BAnd(a, BSet(0x0f));
}
HF_INLINE B8x64 BHigh4(B8x64 a) {
  return BShiftRight<4>(a);
}
HF_INLINE I32x16 DotU8I8(I32x16 acc, B8x64 u, B8x64 s) {
  return ILanes([&](int lane) {
    int32_t dot = 0;
    for (int i = 4 * lane; i < 4 * lane + 4; ++i) dot += u.v[i] * static_cast<int8_t>(s.v[i]);
    return static_cast<int32_t>(Bits(acc.v[lane]) + Bits(dot));
  });
}
HF_INLINE I32x16 DotU7I8(I32x16 acc, B8x64 u, B8x64 s) {
  return DotU8I8(acc, u, s);
}
HF_INLINE void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

}  // namespace holdfast::scalar
