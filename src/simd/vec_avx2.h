// vec.h on AVX2 (with FMA and F16C): two registers, `lo` lanes 0..7 and `hi` lanes 8..15.
#pragma once

#include <immintrin.h>

namespace holdfast::avx2 {

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct B8x64 {
  __m256i lo, hi;
};

HF_INLINE F32x16 Set(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
HF_INLINE F32x16 Zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
HF_INLINE F32x16 Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
HF_INLINE void Store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
HF_INLINE F32x16 LoadF16(const void* p) {
  const auto* h = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
HF_INLINE __m256 WidenBf16(__m128i h) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
HF_INLINE F32x16 LoadBf16(const void* p) {
  const auto* h = static_cast<const __m128i*>(p);
  return {WidenBf16(_mm_loadu_si128(h)), WidenBf16(_mm_loadu_si128(h + 1))};
}
HF_INLINE void StoreF16(void* p, F32x16 a) {
  auto* h = static_cast<__m128i*>(p);
  _mm_storeu_si128(h, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(h + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HF_INLINE __m256i RoundBf16(__m256 a) {  // 32-bit lanes holding 16-bit patterns
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i top = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
}
HF_INLINE void StoreBf16(void* p, F32x16 a) {
  // The pack works within 128-bit halves: put its quarters 0 2 1 3 back in order.
  const __m256i packed = _mm256_packus_epi32(RoundBf16(a.lo), RoundBf16(a.hi));
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
HF_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
HF_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
HF_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
HF_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
HF_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
HF_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
HF_INLINE F32x16 Sqrt(F32x16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
HF_INLINE F32x16 Abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
HF_INLINE F32x16 Neg(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(sign, a.lo), _mm256_xor_ps(sign, a.hi)};
}
HF_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
HF_INLINE I32x16 FirstLanes(int n) {  // all ones in lanes [0, n)
  const __m256i count = _mm256_set1_epi32(n);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_cmpgt_epi32(count, lane),
          _mm256_cmpgt_epi32(count, _mm256_add_epi32(lane, _mm256_set1_epi32(8)))};
}
HF_INLINE F32x16 LoadFirst(const float* p, int n) {
  const I32x16 mask = FirstLanes(n);
  return {_mm256_maskload_ps(p, mask.lo), _mm256_maskload_ps(p + 8, mask.hi)};
}
HF_INLINE void StoreFirst(float* p, F32x16 a, int n) {
  const I32x16 mask = FirstLanes(n);
  _mm256_maskstore_ps(p, mask.lo, a.lo);
  _mm256_maskstore_ps(p + 8, mask.hi, a.hi);
}
HF_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
HF_INLINE float HSum(F32x16 a) {
  const __m256 s8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}
HF_INLINE float HMax(F32x16 a) {
  const __m256 s8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
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
// Within quarters of four lanes; bits of `upper` are the lanes that take differences.
template <int swap, int upper>
HF_INLINE __m256 ButterflyWithin(__m256 a) {
  const __m256 partner = _mm256_permute_ps(a, swap);
  return _mm256_blend_ps(_mm256_add_ps(a, partner), _mm256_sub_ps(partner, a), upper);
}
HF_INLINE __m256 ButterflyHalves(__m256 a) {
  const __m256 partner = _mm256_permute2f128_ps(a, a, 1);
  return _mm256_blend_ps(_mm256_add_ps(a, partner), _mm256_sub_ps(partner, a), 0xf0);
}
template <int n>
HF_INLINE F32x16 Butterfly(F32x16 a) {
  static_assert(n == 1 || n == 2 || n == 4 || n == 8);
  if constexpr (n == 1) return {ButterflyWithin<0xb1, 0xaa>(a.lo), ButterflyWithin<0xb1, 0xaa>(a.hi)};
  if constexpr (n == 2) return {ButterflyWithin<0x4e, 0xcc>(a.lo), ButterflyWithin<0x4e, 0xcc>(a.hi)};
  if constexpr (n == 4) return {ButterflyHalves(a.lo), ButterflyHalves(a.hi)};
  return {_mm256_add_ps(a.lo, a.hi), _mm256_sub_ps(a.lo, a.hi)};
}

HF_INLINE I32x16 ISet(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
HF_INLINE I32x16 IZero() {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
HF_INLINE I32x16 ILoad(const int32_t* p) {
  const auto* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
HF_INLINE void IStore(int32_t* p, I32x16 a) {
  auto* q = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(q, a.lo);
  _mm256_storeu_si256(q + 1, a.hi);
}
HF_INLINE I32x16 IAdd(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
HF_INLINE I32x16 ISub(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
HF_INLINE I32x16 IMul(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
HF_INLINE I32x16 IAnd(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
HF_INLINE I32x16 IOr(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
template <int n>
HF_INLINE I32x16 IShiftRight(I32x16 a) {
  return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
HF_INLINE void StoreBytes(void* p, I32x16 a) {
  const __m256i low = _mm256_set1_epi32(0xff);
  // Packs work within 128-bit halves: the 16-bit lanes come out as 0-3, 8-11, 4-7, 12-15 in fours.
  const __m256i words = _mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}
HF_INLINE F32x16 ToF32(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
HF_INLINE I32x16 RoundToI32(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
HF_INLINE F32x16 Fraction(F32x16 a) {
  return Sub(a, ToF32(RoundToI32(a)));
}
HF_INLINE F32x16 Exponent2(I32x16 a) {
  const I32x16 biased = IAdd(a, ISet(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(biased.lo, 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(biased.hi, 23))};
}
HF_INLINE F32x16 ScaledFrom(F32x16 low, F32x16 x, F32x16 a, F32x16 n) {
  return SelectLess(x, low, Zero(), Mul(a, Exponent2(RoundToI32(n))));
}
HF_INLINE F32x16 LoadU8AsF32(const void* p) {
  const __m128i b = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return ToF32({_mm256_cvtepu8_epi32(b), _mm256_cvtepu8_epi32(_mm_srli_si128(b, 8))});
}
HF_INLINE F32x16 LoadI8AsF32(const void* p) {
  const __m128i b = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return ToF32({_mm256_cvtepi8_epi32(b), _mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))});
}

HF_INLINE B8x64 BLoad(const void* p) {
  const auto* q = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
HF_INLINE void BStore(void* p, B8x64 a) {
  auto* q = static_cast<__m256i*>(p);
  _mm256_storeu_si256(q, a.lo);
  _mm256_storeu_si256(q + 1, a.hi);
}
HF_INLINE B8x64 BBroadcast4(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return {_mm256_set1_epi32(word), _mm256_set1_epi32(word)};
}
HF_INLINE B8x64 BSet(uint8_t x) {
  const __m256i b = _mm256_set1_epi8(static_cast<char>(x));
  return {b, b};
}
HF_INLINE B8x64 BAnd(B8x64 a, B8x64 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
HF_INLINE B8x64 BOr(B8x64 a, B8x64 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
HF_INLINE B8x64 BXor(B8x64 a, B8x64 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
HF_INLINE B8x64 BSelect(B8x64 mask, B8x64 a, B8x64 b) {
  return BOr(BAnd(mask, a), {_mm256_andnot_si256(mask.lo, b.lo), _mm256_andnot_si256(mask.hi, b.hi)});
}
HF_INLINE B8x64 BAdd(B8x64 a, B8x64 b) {
  return {_mm256_add_epi8(a.lo, b.lo), _mm256_add_epi8(a.hi, b.hi)};
}
HF_INLINE B8x64 BSub(B8x64 a, B8x64 b) {
  return {_mm256_sub_epi8(a.lo, b.lo), _mm256_sub_epi8(a.hi, b.hi)};
}
HF_INLINE B8x64 BMin(B8x64 a, B8x64 b) {
  return {_mm256_min_epu8(a.lo, b.lo), _mm256_min_epu8(a.hi, b.hi)};
}
HF_INLINE B8x64 BSubSat(B8x64 a, B8x64 b) {
  return {_mm256_subs_epu8(a.lo, b.lo), _mm256_subs_epu8(a.hi, b.hi)};
}
// Comparisons are signed: the sign bit is turned on both sides.
HF_INLINE __m256i Ordered(__m256i unsigned_bytes) {
  return _mm256_xor_si256(unsigned_bytes, _mm256_set1_epi8(-128));
}
HF_INLINE B8x64 BCountGreater(B8x64 n, B8x64 a, B8x64 b) {
  return {_mm256_sub_epi8(n.lo, _mm256_cmpgt_epi8(Ordered(a.lo), Ordered(b.lo))),
          _mm256_sub_epi8(n.hi, _mm256_cmpgt_epi8(Ordered(a.hi), Ordered(b.hi)))};
}
template <int n>
HF_INLINE B8x64 BShiftRight(B8x64 a) {
  return BAnd({_mm256_srli_epi16(a.lo, n), _mm256_srli_epi16(a.hi, n)},
              BSet(static_cast<uint8_t>(0xff >> n)));
}
template <int n>
HF_INLINE B8x64 BShiftLeft(B8x64 a) {
  return BAnd({_mm256_slli_epi16(a.lo, n), _mm256_slli_epi16(a.hi, n)},
              BSet(static_cast<uint8_t>((0xff << n) & 0xff)));
}
template <int n>
HF_INLINE B8x64 BLooseShiftRight(B8x64 a) {
  return {_mm256_srli_epi16(a.lo, n), _mm256_srli_epi16(a.hi, n)};
}
template <int n>
HF_INLINE B8x64 BLooseShiftLeft(B8x64 a) {
  return {_mm256_slli_epi16(a.lo, n), _mm256_slli_epi16(a.hi, n)};
}
HF_INLINE B8x64 BLow4(B8x64 a) {
  return BAnd(a, BSet(0x0f));
}
HF_INLINE B8x64 BHigh4(B8x64 a) {
  return BShiftRight<4>(a);
}

HF_INLINE B8x64 BBroadcast16(const void* p) {
  const __m256i b = _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return {b, b};
}
HF_INLINE B8x64 BLookup16(B8x64 table, B8x64 index) {
  return {_mm256_shuffle_epi8(table.lo, index.lo), _mm256_shuffle_epi8(table.hi, index.hi)};
}
// The packs work within 128-bit halves, which is the order that is wanted.
HF_INLINE I32x16 PackWords(I32x16 a, I32x16 b) {
  return {_mm256_packus_epi32(a.lo, b.lo), _mm256_packus_epi32(a.hi, b.hi)};
}
HF_INLINE B8x64 PackBytes(I32x16 a, I32x16 b) {
  return {_mm256_packus_epi16(a.lo, b.lo), _mm256_packus_epi16(a.hi, b.hi)};
}
HF_INLINE B8x64 PackLevels(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  return PackBytes(PackWords(a, b), PackWords(c, d));
}
HF_INLINE void PackLevels16(I32x16 a, I32x16 b, I32x16 c, I32x16 d, B8x64* upper, B8x64* lower) {
  const I32x16 ab = PackWords(a, b), cd = PackWords(c, d);
  const I32x16 low = ISet(0x00ff00ff);
  *lower = PackBytes(IAnd(ab, low), IAnd(cd, low));
  *upper = PackBytes({_mm256_srli_epi16(ab.lo, 8), _mm256_srli_epi16(ab.hi, 8)},
                     {_mm256_srli_epi16(cd.lo, 8), _mm256_srli_epi16(cd.hi, 8)});
}

// The one-instruction u8 x s8 product saturates its 16-bit pair sums, so both sides are widened to 16 bits
// first: even and odd bytes apart, which costs shifts but no shuffles.
HF_INLINE __m256i DotU8I8Half(__m256i acc, __m256i u, __m256i s) {
  const __m256i u_even = _mm256_and_si256(u, _mm256_set1_epi16(0x00ff));
  const __m256i u_odd = _mm256_srli_epi16(u, 8);
  const __m256i s_even = _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8);
  const __m256i s_odd = _mm256_srai_epi16(s, 8);
  const __m256i dot = _mm256_add_epi32(_mm256_madd_epi16(u_even, s_even), _mm256_madd_epi16(u_odd, s_odd));
  return _mm256_add_epi32(acc, dot);
}
HF_INLINE I32x16 DotU8I8(I32x16 acc, B8x64 u, B8x64 s) {
  return {DotU8I8Half(acc.lo, u.lo, s.lo), DotU8I8Half(acc.hi, u.hi, s.hi)};
}
// Pair sums reach at most 2 * 127 * 128 = 32512 in magnitude, which fits.
HF_INLINE __m256i DotU7I8Half(__m256i acc, __m256i u, __m256i s) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1)));
}
HF_INLINE I32x16 DotU7I8(I32x16 acc, B8x64 u, B8x64 s) {
  return {DotU7I8Half(acc.lo, u.lo, s.lo), DotU7I8Half(acc.hi, u.hi, s.hi)};
}
HF_INLINE void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace holdfast::avx2
