// Eight doubles at a time, the same operations in the same order on every instruction set, so the sums are the
// same bits. The compiler's vector type does: f32 lanes of simd/vec.h have too few bits here.
#include "engine/divergence_kernels.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

typedef double F64x8 __attribute__((vector_size(64)));
typedef int64_t I64x8 __attribute__((vector_size(64)));
typedef float F32x8 __attribute__((vector_size(32)));
constexpr int kLanes = 8;

// Vectors go by reference: by value they have another calling convention on each instruction set.
#define HF_DIVERGENCE_INLINE __attribute__((always_inline)) inline

// 1/0! .. 1/13!: the Taylor series of e^r, whose error at |r| <= ln(2)/2 is below 1e-17.
constexpr double kTaylor[14] = {
    1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};

// e^x for x <= 0, to a few ulp; what is below e^-700 counts as e^-700, which is nothing beside 1.
HF_DIVERGENCE_INLINE void Exp(const F64x8& argument, F64x8& out) {
  constexpr double kLowest = -700.0;
  constexpr double kRounder =
      6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, in the low bits
  const F64x8 x = argument < kLowest ? F64x8{} + kLowest : argument;
  const F64x8 rounded = x * 1.4426950408889634 + kRounder;
  const F64x8 whole = rounded - kRounder;
  // ln 2 in two parts (Cody & Waite); the first has so few bits that its product with `whole` is exact.
  const F64x8 r = (x - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
  F64x8 p = F64x8{} + kTaylor[13];
  for (int i = 12; i >= 0; --i) p = p * r + kTaylor[i];
  I64x8 shift, bits;
  __builtin_memcpy(&shift, &rounded, sizeof shift);
  __builtin_memcpy(&bits, &p, sizeof bits);
  bits += shift << 52;  // times 2^whole
  __builtin_memcpy(&out, &bits, sizeof out);
}

// x[0..count) - top, other lanes so low that they add nothing.
HF_DIVERGENCE_INLINE void Load(const float* x, int64_t count, float top, F64x8& out) {
  F32x8 v;
  if (count >= kLanes) {
    __builtin_memcpy(&v, x, sizeof v);
    out = __builtin_convertvector(v, F64x8) - static_cast<double>(top);
    return;
  }
  double lanes[kLanes] = {-1e6, -1e6, -1e6, -1e6, -1e6, -1e6, -1e6, -1e6};
  for (int64_t i = 0; i < count; ++i) lanes[i] = static_cast<double>(x[i]) - static_cast<double>(top);
  __builtin_memcpy(&out, lanes, sizeof out);
}

HF_DIVERGENCE_INLINE double Sum(const F64x8& v) {
  double sum = 0.0;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

int64_t FirstLargest(const float* x, int64_t n) {
  F32x8 top = F32x8{} + x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    F32x8 v;
    __builtin_memcpy(&v, x + i, sizeof v);
    top = v > top ? v : top;
  }
  float largest = top[0];
  for (int lane = 1; lane < kLanes; ++lane) largest = top[lane] > largest ? top[lane] : largest;
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  int64_t first = 0;
  while (first + 1 < n && x[first] != largest) ++first;
  return first;
}

double ExpSum(const float* x, int64_t n, float top) {
  F64x8 sum{}, shifted{}, power{};
  for (int64_t i = 0; i < n; i += kLanes) {
    Load(x + i, n - i, top, shifted);
    Exp(shifted, power);
    sum += power;
  }
  return Sum(sum);
}

double CrossSum(const float* p, float p_top, const float* q, float q_top, int64_t n, double* q_sum) {
  F64x8 cross{}, sum{}, a{}, b{}, power{};
  for (int64_t i = 0; i < n; i += kLanes) {
    Load(p + i, n - i, p_top, a);
    Load(q + i, n - i, q_top, b);
    Exp(b, power);
    sum += power;
    Exp(a, power);
    cross += power * (a - b);
  }
  *q_sum = Sum(sum);
  return Sum(cross);
}

}  // namespace

extern const DivergenceKernels kDivergenceKernels;
const DivergenceKernels kDivergenceKernels = {FirstLargest, ExpSum, CrossSum};

}  // namespace holdfast::HOLDFAST_ISA_NS
