// The portable vector type that kernels are written in: sixteen float lanes on every instruction set.
//
// A kernel includes this header, lives in namespace holdfast::HOLDFAST_ISA_NS and is compiled once per tier
// (cmake/HoldfastModule.cmake, KERNELS). Sixteen lanes are one AVX-512 register, two AVX2 ones, four NEON
// ones and an array in the scalar tier; a tile of the cache has as many rows, so a lane is a row. Every
// operation below is provided by each vec_<isa>.h with the same meaning:
//
//   F32x16  Zero() Set(x) Load(p) Store(p, v)       unaligned float32
//           LoadF16(p) LoadBf16(p)                  16 patterns to float, exact
//           StoreF16(p, v) StoreBf16(p, v)          round to nearest even
//           Add Sub Mul Div Max Min Sqrt Abs Neg
//           Fma(a, b, c) = a*b + c                  one rounding (scalar tier: two)
//           LoadFirst(p, n)                         lanes [0, n) from p, the others 0; reads nothing past n
//           StoreFirst(p, v, n)                     writes lanes [0, n) only
//           SelectLess(a, b, x, y)                  lane: a < b ? x : y
//           HSum(v) HMax(v)                         fixed tree: lanes i and i+8, then +4, +2, +1
//           HMaxEach(v)                             of v[8]: lane i < 8 is HMax(v[i])
//           HSumEach(v)                             of v[8]: lane i < 8 is HSum(v[i])
//           Butterfly<n>(v)                         lane i: i & n ? v[i^n] - v[i] : v[i] + v[i^n]; n = 1, 2, 4, 8
//   I32x16  IZero() ISet(x) ILoad(p) IStore(p, v) IAdd ISub IMul
//           IShiftRight<n>(i)                       arithmetic
//           StoreBytes(p, i)                        16 bytes: the low byte of each lane
//           IAnd IOr
//           PackLevels(a, b, c, d)                  B8x64: byte 16*j + 4*t + i is lane 4*j + i of vector t; REQUIRES 0..255
//           PackLevels16(a, b, c, d, &upper, &lower)  the upper and lower bytes so; REQUIRES 0..65535
//           ToF32(i)   RoundToI32(f)                nearest even; REQUIRES |f| < 2^31
//           Fraction(f) = f - RoundToI32(f)         exact; REQUIRES |f| < 2^22
//           Exponent2(i) = 2^i as F32x16            REQUIRES -126 <= i <= 127
//           ScaledFrom(low, x, a, n)                lane: x < low ? 0 : a * 2^n; REQUIRES n whole and in -126..127 where
//                                                   it counts
//           LoadU8AsF32(p) LoadI8AsF32(p)           16 bytes to float
//           Max and Min of a NaN are unspecified. vec_math.h adds Exp2, Exp, Sigmoid, Silu, Tanh, GeluTanh.
//   B8x64   BLoad(p) BBroadcast4(p)                 64 bytes; 4 bytes repeated 16 times
//           BLow4(b) BHigh4(b)                      low / high nibble of each byte, 0..15
//           BAnd BOr BXor BSet(byte) BShiftRight<n>(b) BShiftLeft<n>(b)   shifts are within each byte
//           BSelect(mask, a, b)                     bits of a where the mask's are set, else of b
//           BAdd BSub                               modulo 256
//           BMin BSubSat(a, b)                      unsigned; a - b, 0 where b > a
//           BCountGreater(n, a, b)                  n + 1 where a > b, unsigned, else n
//           BLooseShiftRight<n>(b) BLooseShiftLeft<n>(b)   as above, but the n bits that become free are anything
//           BBroadcast16(p)                         16 bytes repeated 4 times
//           BLookup16(table, b)                     byte i: table[i / 16 * 16 + b[i]]; REQUIRES every b[i] <= 15
//           BStore(p, b)
//   DotU8I8(acc, u, s): acc[lane] += sum over 4 of u8[4*lane+i] * s8[4*lane+i], exact for every input
//   DotU7I8(acc, u, s): the same; REQUIRES every u8 <= 127 (nibbles, say): faster on AVX2 and NEON
//   Prefetch(p)                                     a hint: the line of p will be read soon
//
// A TU compiled for a strong tier must define nothing that the linker could share with other TUs (an inline
// function of a standard header, compiled here with AVX-512, would crash an older machine). So kernels use no
// standard containers or algorithms, and everything here is always_inline in the tier's own namespace.
#pragma once

#include <cstddef>
#include <cstdint>

// Inlining is what makes a vector type free, except in the scalar tier, where sixteen copies of everything take minutes to
// compile and gain nothing.
#if defined(HOLDFAST_ISA_SCALAR)
#define HF_INLINE static inline
#else
#define HF_INLINE static inline __attribute__((always_inline))
#endif

#if defined(HOLDFAST_ISA_AVX512) || defined(HOLDFAST_ISA_AMX)  // the vectors are the same
#include "simd/vec_avx512.h"
#elif defined(HOLDFAST_ISA_AVX2)
#include "simd/vec_avx2.h"
#elif defined(HOLDFAST_ISA_NEON)
#include "simd/vec_neon.h"
#elif defined(HOLDFAST_ISA_SCALAR)
#include "simd/vec_scalar.h"
#else
#error "vec.h is for per-ISA kernels: list the file under KERNELS in its CMakeLists.txt"
#endif

#include "simd/vec_math.h"
