// vec.h on AVX-512 (F, BW, DQ, VL, VNNI): one register.
#pragma once

// gcc 12 warns of the registers that its own header leaves undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace holdfast::HOLDFAST_ISA_NS {

struct F32x16 {
  __m512 v;
};
// Of 32-bit lanes in name too: where __m512i (64-bit lanes) alternated with the dots' own type, gcc 12 kept arrays of
// accumulators in memory.
using I32Lanes = int __attribute__((vector_size(64), may_alias));
struct I32x16 {
  I32Lanes v;
};
HF_INLINE __m512i Bits(I32x16 a) {
  return reinterpret_cast<__m512i>(a.v);
}
HF_INLINE I32x16 Ints(__m512i bits) {
  return {reinterpret_cast<I32Lanes>(bits)};
}
struct B8x64 {
  __m512i v;
};

HF_INLINE F32x16 Zero() {
  return {_mm512_setzero_ps()};
}
HF_INLINE F32x16 Set(float x) {
  return {_mm512_set1_ps(x)};
}
HF_INLINE F32x16 Load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
HF_INLINE void Store(float* p, F32x16 a) {
  _mm512_storeu_ps(p, a.v);
}
HF_INLINE F32x16 LoadF16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
HF_INLINE F32x16 LoadBf16(const void* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
HF_INLINE void StoreF16(void* p, F32x16 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HF_INLINE void StoreBf16(void* p, F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  rounded = _mm512_srli_epi32(rounded, 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, nan, quiet)));
}
HF_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
HF_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
HF_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
HF_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
HF_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
HF_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
HF_INLINE F32x16 Sqrt(F32x16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
HF_INLINE F32x16 Abs(F32x16 a) {
  return {_mm512_abs_ps(a.v)};
}
HF_INLINE F32x16 Neg(F32x16 a) {
  return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(INT32_MIN)))};
}
HF_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
HF_INLINE __mmask16 FirstLanes(int n) {
  return static_cast<__mmask16>((1u << n) - 1u);
}
HF_INLINE F32x16 LoadFirst(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(FirstLanes(n), p)};
}
HF_INLINE void StoreFirst(float* p, F32x16 a, int n) {
  _mm512_mask_storeu_ps(p, FirstLanes(n), a.v);
}
HF_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_mov_ps(y.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), x.v)};
}
HF_INLINE float HSum(F32x16 a) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
HF_INLINE float HMax(F32x16 a) {
  const __m256 s8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
// Lanes of a and of b that HSum and HMax would join, where they are for `step` 0 (halves) and 1 (quarters).
template <int step>
HF_INLINE __m512 Half(__m512 a, __m512 b, bool upper) {
  if constexpr (step == 0) return upper ? _mm512_shuffle_f32x4(a, b, 0xee) : _mm512_shuffle_f32x4(a, b, 0x44);
  if constexpr (step == 1) return upper ? _mm512_shuffle_f32x4(a, b, 0xdd) : _mm512_shuffle_f32x4(a, b, 0x88);
}
// Halves, quarters and lanes of two vectors meet in one, so that eight sums or maxima cost three times one.
template <typename Join>
HF_INLINE F32x16 JoinEach(const F32x16 (&v)[8], Join join) {
  __m512 pair[4], four[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 a = v[2 * i].v, b = v[2 * i + 1].v;
    pair[i] = join(Half<0>(a, b, false), Half<0>(a, b, true));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512 a = pair[2 * i], b = pair[2 * i + 1];
    four[i] = join(Half<1>(a, b, false), Half<1>(a, b, true));
  }
  // A quarter i: two partial results each of v[i] and v[i + 4], alternating.
  const __m512 both = join(_mm512_unpacklo_ps(four[0], four[1]), _mm512_unpackhi_ps(four[0], four[1]));
  const __m512 all = join(both, _mm512_permute_ps(both, 0x4e));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 4, 8, 12, 1, 5, 9, 13);
  return {_mm512_permutexvar_ps(order, all)};
}
HF_INLINE F32x16 HMaxEach(const F32x16 (&v)[8]) {
  return JoinEach(v, [](__m512 a, __m512 b) { return _mm512_max_ps(a, b); });
}
HF_INLINE F32x16 HSumEach(const F32x16 (&v)[8]) {
  return JoinEach(v, [](__m512 a, __m512 b) { return _mm512_add_ps(a, b); });
}
// Lanes of a with their partners at distance n changed places.
template <int n>
HF_INLINE __m512 Partners(__m512 a) {
  if constexpr (n == 1) return _mm512_permute_ps(a, 0xb1);
  if constexpr (n == 2) return _mm512_permute_ps(a, 0x4e);
  if constexpr (n == 4) return _mm512_shuffle_f32x4(a, a, 0xb1);
  if constexpr (n == 8) return _mm512_shuffle_f32x4(a, a, 0x4e);
}
template <int n>
HF_INLINE F32x16 Butterfly(F32x16 a) {
  static_assert(n == 1 || n == 2 || n == 4 || n == 8);
  constexpr __mmask16 kUpper = n == 1 ? 0xaaaa : n == 2 ? 0xcccc : n == 4 ? 0xf0f0 : 0xff00;
  const __m512 partner = Partners<n>(a.v);
  return {_mm512_mask_sub_ps(_mm512_add_ps(a.v, partner), kUpper, partner, a.v)};
}

HF_INLINE I32x16 IZero() {
  return Ints(_mm512_setzero_si512());
}
HF_INLINE I32x16 ISet(int32_t x) {
  return Ints(_mm512_set1_epi32(x));
}
HF_INLINE I32x16 ILoad(const int32_t* p) {
  return Ints(_mm512_loadu_si512(p));
}
HF_INLINE void IStore(int32_t* p, I32x16 a) {
  _mm512_storeu_si512(p, Bits(a));
}
HF_INLINE I32x16 IAdd(I32x16 a, I32x16 b) {
  return Ints(_mm512_add_epi32(Bits(a), Bits(b)));
}
HF_INLINE I32x16 ISub(I32x16 a, I32x16 b) {
  return Ints(_mm512_sub_epi32(Bits(a), Bits(b)));
}
HF_INLINE I32x16 IMul(I32x16 a, I32x16 b) {
  return Ints(_mm512_mullo_epi32(Bits(a), Bits(b)));
}
HF_INLINE I32x16 IAnd(I32x16 a, I32x16 b) {
  return Ints(_mm512_and_si512(Bits(a), Bits(b)));
}
HF_INLINE I32x16 IOr(I32x16 a, I32x16 b) {
  return Ints(_mm512_or_si512(Bits(a), Bits(b)));
}
template <int n>
HF_INLINE I32x16 IShiftRight(I32x16 a) {
  return Ints(_mm512_srai_epi32(Bits(a), n));
}
HF_INLINE void StoreBytes(void* p, I32x16 a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(Bits(a)));
}
HF_INLINE F32x16 ToF32(I32x16 a) {
  return {_mm512_cvtepi32_ps(Bits(a))};
}
HF_INLINE I32x16 RoundToI32(F32x16 a) {
  return Ints(_mm512_cvtps_epi32(a.v));
}
HF_INLINE F32x16 Fraction(F32x16 a) {
  return {_mm512_reduce_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
HF_INLINE F32x16 Exponent2(I32x16 a) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(Bits(a), _mm512_set1_epi32(127)), 23))};
}
HF_INLINE F32x16 ScaledFrom(F32x16 low, F32x16 x, F32x16 a, F32x16 n) {
  return {_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.v, low.v, _CMP_NLT_UQ), a.v, n.v)};
}
HF_INLINE F32x16 LoadU8AsF32(const void* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
HF_INLINE F32x16 LoadI8AsF32(const void* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}

HF_INLINE B8x64 BLoad(const void* p) {
  return {_mm512_loadu_si512(p)};
}
HF_INLINE void BStore(void* p, B8x64 a) {
  _mm512_storeu_si512(p, a.v);
}
HF_INLINE B8x64 BBroadcast4(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return {_mm512_set1_epi32(word)};
}
HF_INLINE B8x64 BSet(uint8_t x) {
  return {_mm512_set1_epi8(static_cast<char>(x))};
}
HF_INLINE B8x64 BAnd(B8x64 a, B8x64 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
HF_INLINE B8x64 BOr(B8x64 a, B8x64 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
HF_INLINE B8x64 BXor(B8x64 a, B8x64 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
HF_INLINE B8x64 BSelect(B8x64 mask, B8x64 a, B8x64 b) {
  return {_mm512_ternarylogic_epi32(mask.v, a.v, b.v, 0xca)};
}
HF_INLINE B8x64 BAdd(B8x64 a, B8x64 b) {
  return {_mm512_add_epi8(a.v, b.v)};
}
HF_INLINE B8x64 BSub(B8x64 a, B8x64 b) {
  return {_mm512_sub_epi8(a.v, b.v)};
}
HF_INLINE B8x64 BMin(B8x64 a, B8x64 b) {
  return {_mm512_min_epu8(a.v, b.v)};
}
HF_INLINE B8x64 BSubSat(B8x64 a, B8x64 b) {
  return {_mm512_subs_epu8(a.v, b.v)};
}
HF_INLINE B8x64 BCountGreater(B8x64 n, B8x64 a, B8x64 b) {
  return {_mm512_mask_sub_epi8(n.v, _mm512_cmpgt_epu8_mask(a.v, b.v), n.v, _mm512_set1_epi8(-1))};
}
template <int n>
HF_INLINE B8x64 BShiftRight(B8x64 a) {
  return BAnd({_mm512_srli_epi16(a.v, n)}, BSet(static_cast<uint8_t>(0xff >> n)));
}
template <int n>
HF_INLINE B8x64 BShiftLeft(B8x64 a) {
  return BAnd({_mm512_slli_epi16(a.v, n)}, BSet(static_cast<uint8_t>(0xff << n)));
}
template <int n>
HF_INLINE B8x64 BLooseShiftRight(B8x64 a) {
  return {_mm512_srli_epi16(a.v, n)};
}
template <int n>
HF_INLINE B8x64 BLooseShiftLeft(B8x64 a) {
  return {_mm512_slli_epi16(a.v, n)};
}
HF_INLINE B8x64 BLow4(B8x64 a) {
  return BAnd(a, BSet(0x0f));
}
HF_INLINE B8x64 BHigh4(B8x64 a) {
  return BShiftRight<4>(a);
}
HF_INLINE B8x64 BBroadcast16(const void* p) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
HF_INLINE B8x64 BLookup16(B8x64 table, B8x64 index) {
  return {_mm512_shuffle_epi8(table.v, index.v)};
}
// The packs work within 128-bit quarters, which is the order that is wanted.
HF_INLINE B8x64 PackLevels(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  return {_mm512_packus_epi16(_mm512_packus_epi32(Bits(a), Bits(b)), _mm512_packus_epi32(Bits(c), Bits(d)))};
}
HF_INLINE void PackLevels16(I32x16 a, I32x16 b, I32x16 c, I32x16 d, B8x64* upper, B8x64* lower) {
  const __m512i ab = _mm512_packus_epi32(Bits(a), Bits(b)), cd = _mm512_packus_epi32(Bits(c), Bits(d));
  const __m512i low = _mm512_set1_epi16(0x00ff);
  upper->v = _mm512_packus_epi16(_mm512_srli_epi16(ab, 8), _mm512_srli_epi16(cd, 8));
  lower->v = _mm512_packus_epi16(_mm512_and_si512(ab, low), _mm512_and_si512(cd, low));
}
HF_INLINE I32x16 DotU8I8(I32x16 acc, B8x64 u, B8x64 s) {
  return Ints(_mm512_dpbusd_epi32(Bits(acc), u.v, s.v));
}
HF_INLINE I32x16 DotU7I8(I32x16 acc, B8x64 u, B8x64 s) {
  return DotU8I8(acc, u, s);
}
HF_INLINE void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace holdfast::HOLDFAST_ISA_NS
