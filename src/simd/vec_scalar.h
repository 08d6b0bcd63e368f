// vec.h for any processor and as the other tiers' yardstick: four vectors of sixteen bytes in the compiler's
// own vector types, which it lowers to whatever the baseline instruction set has. (Arrays and loops over
// lanes were tried: unrolled sixteenfold, one kernel file took ten minutes to compile.)
#pragma once

#include "base/float16.h"

namespace holdfast::scalar {

typedef float F32x4 __attribute__((vector_size(16)));
typedef int32_t I32x4 __attribute__((vector_size(16)));
typedef uint32_t U32x4 __attribute__((vector_size(16)));
typedef int16_t I16x8 __attribute__((vector_size(16)));
typedef uint16_t U16x8 __attribute__((vector_size(16)));
typedef uint8_t U8x16 __attribute__((vector_size(16)));
typedef uint16_t U16x4 __attribute__((vector_size(8)));
typedef uint8_t U8x4 __attribute__((vector_size(4)));
typedef int8_t I8x4 __attribute__((vector_size(4)));

struct F32x16 {
  F32x4 v[4];
};
struct I32x16 {
  I32x4 v[4];
};
struct B8x64 {
  U8x16 v[4];
};

// Vector i of the result is op(i).
template <typename Op>
HF_INLINE F32x16 FVectors(Op op) {
  return {{op(0), op(1), op(2), op(3)}};
}
template <typename Op>
HF_INLINE I32x16 IVectors(Op op) {
  return {{op(0), op(1), op(2), op(3)}};
}
template <typename Op>
HF_INLINE B8x64 BVectors(Op op) {
  return {{op(0), op(1), op(2), op(3)}};
}
// Vector i of an array of V at p, of any alignment.
template <typename V>
HF_INLINE V LoadVector(const void* p, int i) {
  V v;
  __builtin_memcpy(&v, static_cast<const char*>(p) + static_cast<size_t>(i) * sizeof v, sizeof v);
  return v;
}
template <typename V>
HF_INLINE void StoreVector(void* p, int i, V v) {
  __builtin_memcpy(static_cast<char*>(p) + static_cast<size_t>(i) * sizeof v, &v, sizeof v);
}

HF_INLINE F32x16 Set(float x) {
  return FVectors([&](int) { return F32x4{x, x, x, x}; });
}
HF_INLINE F32x16 Zero() {
  return Set(0.0f);
}
HF_INLINE F32x16 Load(const float* p) {
  return FVectors([&](int i) { return LoadVector<F32x4>(p, i); });
}
HF_INLINE void Store(float* p, F32x16 a) {
  __builtin_memcpy(p, &a, sizeof a);
}
// Multiplying by 2^112 moves a half's exponent, subnormals included, to a float's; infinities and NaNs are
// set apart.
HF_INLINE F32x16 LoadF16(const void* p) {
  return FVectors([&](int i) {
    const U32x4 h = __builtin_convertvector(LoadVector<U16x4>(p, i), U32x4);
    const U32x4 magnitude = (h & 0x7fffu) << 13;
    const U32x4 finite = (U32x4)((F32x4)magnitude * 0x1p112f);
    const U32x4 special = (U32x4)(magnitude >= 0x0f800000u);
    const U32x4 bits = (special & (magnitude | 0x7f800000u)) | (~special & finite);
    return (F32x4)(bits | ((h & 0x8000u) << 16));
  });
}
HF_INLINE F32x16 LoadBf16(const void* p) {
  return FVectors(
      [&](int i) { return (F32x4)(__builtin_convertvector(LoadVector<U16x4>(p, i), U32x4) << 16); });
}
HF_INLINE void StoreF16(void* p, F32x16 a) {
  uint16_t h[16];
#pragma GCC unroll 1
  for (int i = 0; i < 16; ++i) h[i] = F32ToF16(a.v[i / 4][i % 4]);
  __builtin_memcpy(p, h, sizeof h);
}
HF_INLINE void StoreBf16(void* p, F32x16 a) {
  for (int i = 0; i < 4; ++i) {
    const U32x4 bits = (U32x4)a.v[i];
    const U32x4 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const U32x4 nan = (U32x4)(a.v[i] != a.v[i]);
    StoreVector(p, i, __builtin_convertvector((nan & ((bits >> 16) | 0x40u)) | (~nan & rounded), U16x4));
  }
}
HF_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return FVectors([&](int i) { return a.v[i] + b.v[i]; });
}
HF_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return FVectors([&](int i) { return a.v[i] - b.v[i]; });
}
HF_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return FVectors([&](int i) { return a.v[i] * b.v[i]; });
}
HF_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return FVectors([&](int i) { return a.v[i] / b.v[i]; });
}
HF_INLINE F32x4 Larger(F32x4 a, F32x4 b) {
  return a > b ? a : b;
}
HF_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return FVectors([&](int i) { return Larger(a.v[i], b.v[i]); });
}
HF_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return FVectors([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
HF_INLINE F32x16 Sqrt(F32x16 a) {
  return FVectors([&](int i) {
    return F32x4{__builtin_sqrtf(a.v[i][0]), __builtin_sqrtf(a.v[i][1]), __builtin_sqrtf(a.v[i][2]),
                 __builtin_sqrtf(a.v[i][3])};
  });
}
HF_INLINE F32x16 Abs(F32x16 a) {
  return FVectors([&](int i) { return (F32x4)((U32x4)a.v[i] & 0x7fffffffu); });
}
HF_INLINE F32x16 Neg(F32x16 a) {
  return FVectors([&](int i) { return (F32x4)((U32x4)a.v[i] ^ 0x80000000u); });
}
HF_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return FVectors([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
HF_INLINE F32x16 LoadFirst(const float* p, int n) {
  float lanes[16] = {};
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return Load(lanes);
}
HF_INLINE void StoreFirst(float* p, F32x16 a, int n) {
  float lanes[16];
  Store(lanes, a);
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
HF_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return FVectors([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}
HF_INLINE float HSum(F32x16 a) {
  const F32x4 s = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  return (s[0] + s[2]) + (s[1] + s[3]);
}
HF_INLINE float HMax(F32x16 a) {
  const F32x4 m = Larger(Larger(a.v[0], a.v[2]), Larger(a.v[1], a.v[3]));
  const float even = m[0] > m[2] ? m[0] : m[2], odd = m[1] > m[3] ? m[1] : m[3];
  return even > odd ? even : odd;
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
  if constexpr (n == 8) return {{a.v[0] + a.v[2], a.v[1] + a.v[3], a.v[0] - a.v[2], a.v[1] - a.v[3]}};
  if constexpr (n == 4) return {{a.v[0] + a.v[1], a.v[0] - a.v[1], a.v[2] + a.v[3], a.v[2] - a.v[3]}};
  return FVectors([&](int i) {
    const F32x4 x = a.v[i];
    if constexpr (n == 1) return F32x4{x[0] + x[1], x[0] - x[1], x[2] + x[3], x[2] - x[3]};
    return F32x4{x[0] + x[2], x[1] + x[3], x[0] - x[2], x[1] - x[3]};
  });
}

HF_INLINE I32x16 ISet(int32_t x) {
  return IVectors([&](int) { return I32x4{x, x, x, x}; });
}
HF_INLINE I32x16 IZero() {
  return ISet(0);
}
HF_INLINE I32x16 ILoad(const int32_t* p) {
  return IVectors([&](int i) { return LoadVector<I32x4>(p, i); });
}
HF_INLINE void IStore(int32_t* p, I32x16 a) {
  __builtin_memcpy(p, &a, sizeof a);
}
// Unsigned arithmetic wraps, as the other tiers' instructions do.
HF_INLINE I32x16 IAdd(I32x16 a, I32x16 b) {
  return IVectors([&](int i) { return (I32x4)((U32x4)a.v[i] + (U32x4)b.v[i]); });
}
HF_INLINE I32x16 ISub(I32x16 a, I32x16 b) {
  return IVectors([&](int i) { return (I32x4)((U32x4)a.v[i] - (U32x4)b.v[i]); });
}
HF_INLINE I32x16 IMul(I32x16 a, I32x16 b) {
  return IVectors([&](int i) { return (I32x4)((U32x4)a.v[i] * (U32x4)b.v[i]); });
}
HF_INLINE I32x16 IAnd(I32x16 a, I32x16 b) {
  return IVectors([&](int i) { return a.v[i] & b.v[i]; });
}
HF_INLINE I32x16 IOr(I32x16 a, I32x16 b) {
  return IVectors([&](int i) { return a.v[i] | b.v[i]; });
}
template <int n>
HF_INLINE I32x16 IShiftRight(I32x16 a) {
  return IVectors([&](int i) { return a.v[i] >> n; });
}
HF_INLINE void StoreBytes(void* p, I32x16 a) {
  for (int i = 0; i < 4; ++i) StoreVector(p, i, __builtin_convertvector((U32x4)a.v[i], U8x4));
}
HF_INLINE F32x16 ToF32(I32x16 a) {
  return FVectors([&](int i) { return __builtin_convertvector(a.v[i], F32x4); });
}
// Adding and subtracting 2^23 with the value's sign rounds what is smaller to an integer; the rest is one
// already.
HF_INLINE I32x16 RoundToI32(F32x16 a) {
  return IVectors([&](int i) {
    const U32x4 bits = (U32x4)a.v[i];
    const F32x4 shift = (F32x4)((bits & 0x80000000u) | 0x4b000000u);
    const F32x4 rounded = (a.v[i] + shift) - shift;
    const U32x4 small = (U32x4)((bits & 0x7fffffffu) < 0x4b000000u);
    return __builtin_convertvector((F32x4)((small & (U32x4)rounded) | (~small & bits)), I32x4);
  });
}
HF_INLINE F32x16 Fraction(F32x16 a) {
  return Sub(a, ToF32(RoundToI32(a)));
}
HF_INLINE F32x16 Exponent2(I32x16 a) {
  return FVectors([&](int i) { return (F32x4)(((U32x4)a.v[i] + 127u) << 23); });
}
HF_INLINE F32x16 ScaledFrom(F32x16 low, F32x16 x, F32x16 a, F32x16 n) {
  return SelectLess(x, low, Zero(), Mul(a, Exponent2(RoundToI32(n))));
}
HF_INLINE F32x16 LoadU8AsF32(const void* p) {
  return FVectors([&](int i) { return __builtin_convertvector(LoadVector<U8x4>(p, i), F32x4); });
}
HF_INLINE F32x16 LoadI8AsF32(const void* p) {
  return FVectors([&](int i) { return __builtin_convertvector(LoadVector<I8x4>(p, i), F32x4); });
}

HF_INLINE B8x64 BLoad(const void* p) {
  return BVectors([&](int i) { return LoadVector<U8x16>(p, i); });
}
HF_INLINE void BStore(void* p, B8x64 a) {
  __builtin_memcpy(p, &a, sizeof a);
}
HF_INLINE B8x64 BBroadcast4(const void* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, 4);
  return BVectors([&](int) { return (U8x16)U32x4{word, word, word, word}; });
}
HF_INLINE U8x16 Fill(uint8_t x) {
  const uint32_t word = x * 0x01010101u;
  return (U8x16)U32x4{word, word, word, word};
}
HF_INLINE B8x64 BSet(uint8_t x) {
  return BVectors([&](int) { return Fill(x); });
}
HF_INLINE B8x64 BAnd(B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return a.v[i] & b.v[i]; });
}
HF_INLINE B8x64 BOr(B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return a.v[i] | b.v[i]; });
}
HF_INLINE B8x64 BXor(B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return a.v[i] ^ b.v[i]; });
}
HF_INLINE B8x64 BSelect(B8x64 mask, B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return (a.v[i] & mask.v[i]) | (b.v[i] & ~mask.v[i]); });
}
HF_INLINE B8x64 BAdd(B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return a.v[i] + b.v[i]; });
}
HF_INLINE B8x64 BSub(B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return a.v[i] - b.v[i]; });
}
HF_INLINE B8x64 BMin(B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return b.v[i] ^ ((a.v[i] ^ b.v[i]) & (U8x16)(a.v[i] < b.v[i])); });
}
HF_INLINE B8x64 BSubSat(B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return (a.v[i] - b.v[i]) & (U8x16)(a.v[i] > b.v[i]); });
}
HF_INLINE B8x64 BCountGreater(B8x64 n, B8x64 a, B8x64 b) {
  return BVectors([&](int i) { return n.v[i] - (U8x16)(a.v[i] > b.v[i]); });
}
// Baselines shift 16-bit lanes: what crosses into the neighbouring byte is masked off.
template <int n>
HF_INLINE B8x64 BShiftRight(B8x64 a) {
  return BVectors([&](int i) { return (U8x16)((U16x8)a.v[i] >> n) & Fill(static_cast<uint8_t>(0xff >> n)); });
}
template <int n>
HF_INLINE B8x64 BShiftLeft(B8x64 a) {
  return BVectors(
      [&](int i) { return (U8x16)((U16x8)a.v[i] << n) & Fill(static_cast<uint8_t>((0xff << n) & 0xff)); });
}
template <int n>
HF_INLINE B8x64 BLooseShiftRight(B8x64 a) {
  return BVectors([&](int i) { return (U8x16)((U16x8)a.v[i] >> n); });
}
template <int n>
HF_INLINE B8x64 BLooseShiftLeft(B8x64 a) {
  return BVectors([&](int i) { return (U8x16)((U16x8)a.v[i] << n); });
}
HF_INLINE B8x64 BLow4(B8x64 a) {
  return BAnd(a, BSet(0x0f));
}
HF_INLINE B8x64 BHigh4(B8x64 a) {
  return BShiftRight<4>(a);
}

HF_INLINE B8x64 BBroadcast16(const void* p) {
  return BVectors([&](int) { return LoadVector<U8x16>(p, 0); });
}
// By itself, or a kernel file with many look-ups takes minutes to compile.
__attribute__((noinline)) HF_INLINE B8x64 BLookup16(B8x64 table, B8x64 index) {
  B8x64 out;
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 16; ++k) out.v[i][k] = table.v[i][index.v[i][k] & 15];
  }
  return out;
}
// Bits [shift, shift + 8) of four lanes each.
HF_INLINE B8x64 PackShifted(I32x16 a, I32x16 b, I32x16 c, I32x16 d, int shift) {
  return BVectors([&](int i) {
    const I32x4 lanes[4] = {a.v[i], b.v[i], c.v[i], d.v[i]};
    U8x16 packed;
    for (int t = 0; t < 4; ++t) {
      StoreVector(&packed, t, __builtin_convertvector((U32x4)lanes[t] >> shift & 0xff, U8x4));
    }
    return packed;
  });
}
HF_INLINE B8x64 PackLevels(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  return PackShifted(a, b, c, d, 0);
}
HF_INLINE void PackLevels16(I32x16 a, I32x16 b, I32x16 c, I32x16 d, B8x64* upper, B8x64* lower) {
  *upper = PackShifted(a, b, c, d, 8);
  *lower = PackShifted(a, b, c, d, 0);
}

// A product of a u8 and an s8 fits 16 bits (-32640 .. 32385), the sum of two does not.
HF_INLINE I32x16 DotU8I8(I32x16 acc, B8x64 u, B8x64 s) {
  return IVectors([&](int i) {
    const I16x8 u_even = (I16x8)((U16x8)u.v[i] & 0xff), u_odd = (I16x8)((U16x8)u.v[i] >> 8);
    const I16x8 s_even = (I16x8)((U16x8)s.v[i] << 8) >> 8, s_odd = (I16x8)s.v[i] >> 8;
    const I16x8 even = u_even * s_even, odd = u_odd * s_odd;
    const I32x4 low = ((I32x4)((U32x4)even << 16) >> 16) + ((I32x4)((U32x4)odd << 16) >> 16);
    const I32x4 high = ((I32x4)even >> 16) + ((I32x4)odd >> 16);
    return (I32x4)((U32x4)acc.v[i] + (U32x4)(low + high));
  });
}
HF_INLINE I32x16 DotU7I8(I32x16 acc, B8x64 u, B8x64 s) {
  return DotU8I8(acc, u, s);
}
HF_INLINE void Prefetch(const void* p) {
  __builtin_prefetch(p);
}

}  // namespace holdfast::scalar
