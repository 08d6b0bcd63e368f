// Functions of F32x16 in terms of vec.h's operations: the same polynomial on every instruction set, lane by
// lane, so a value's result never depends on its neighbours. Coefficients are minimax fits of the relative
// error, made with Lawson's iteration. Included by vec.h only.
#pragma once

#include <cstdint>

namespace holdfast::HOLDFAST_ISA_NS {

// 2^x. Error below 1 ulp. Exact for integers, so Exp2(0) is 1; exactly 0 for x < -126 (-infinity included:
// no subnormals), infinity for x >= 127.5. NaN stays NaN.
HF_INLINE F32x16 Exp2(F32x16 x) {
  const F32x16 low = Set(-126.0f);
  const F32x16 high = Set(127.5f);
  const I32x16 n = RoundToI32(Min(Max(x, low), Set(127.0f)));
  const F32x16 f = Sub(x, ToF32(n));  // exact, in [-1/2, 1/2]
  F32x16 p = Set(1.535336206e-04f);   // 2^f = 1 + f * q(f)
  p = Fma(p, f, Set(1.339887459e-03f));
  p = Fma(p, f, Set(9.618437358e-03f));
  p = Fma(p, f, Set(5.550332471e-02f));
  p = Fma(p, f, Set(2.402264791e-01f));
  p = Fma(p, f, Set(6.931472029e-01f));
  p = Mul(Fma(p, f, Set(1.0f)), Exponent2(n));
  p = SelectLess(x, low, Zero(), p);
  return SelectLess(x, high, p, Add(x, Set(__builtin_inff())));  // infinity, or the NaN
}

// e^x. Error below 2 ulp. Exactly 0 for x < -87.3, infinity for x >= 88.3. NaN stays NaN.
HF_INLINE F32x16 Exp(F32x16 x) {
  const F32x16 low = Set(-87.3f);
  const F32x16 high = Set(88.3f);
  const I32x16 n = RoundToI32(Mul(Min(Max(x, low), high), Set(1.44269504f)));
  const F32x16 whole = ToF32(n);
  // ln 2 in two parts (Cody & Waite); the first has so few bits that its product with n is exact.
  F32x16 r = Sub(x, Mul(whole, Set(0.693359375f)));
  r = Sub(r, Mul(whole, Set(-2.12194440e-4f)));
  F32x16 p = Set(1.381446694e-03f);  // e^r = 1 + r + r^2 * q(r)
  p = Fma(p, r, Set(8.368780515e-03f));
  p = Fma(p, r, Set(4.166839422e-02f));
  p = Fma(p, r, Set(1.666652011e-01f));
  p = Fma(p, r, Set(4.999999341e-01f));
  p = Add(Fma(Mul(r, r), p, r), Set(1.0f));
  p = Mul(p, Exponent2(n));
  p = SelectLess(x, low, Zero(), p);
  return SelectLess(x, high, p, Add(x, Set(__builtin_inff())));
}

// 1 / (1 + e^-x).
HF_INLINE F32x16 Sigmoid(F32x16 x) {
  return Div(Set(1.0f), Add(Set(1.0f), Exp(Neg(x))));
}

// x * sigmoid(x).
HF_INLINE F32x16 Silu(F32x16 x) {
  return Div(x, Add(Set(1.0f), Exp(Neg(x))));
}

// tanh(x). Error below 3 ulp, near zero too.
HF_INLINE F32x16 Tanh(F32x16 x) {
  const F32x16 x2 = Mul(x, x);
  F32x16 p = Set(-5.704984801e-03f);  // tanh(x) = x + x^3 * q(x^2) for |x| <= 5/8
  p = Fma(p, x2, Set(2.063908538e-02f));
  p = Fma(p, x2, Set(-5.373971454e-02f));
  p = Fma(p, x2, Set(1.333144219e-01f));
  p = Fma(p, x2, Set(-3.333328194e-01f));
  const F32x16 near_zero = Fma(Mul(x, x2), p, x);
  const F32x16 a = Abs(x);
  const F32x16 magnitude = Sub(Set(1.0f), Div(Set(2.0f), Add(Exp(Add(a, a)), Set(1.0f))));
  const F32x16 far = SelectLess(x, Zero(), Neg(magnitude), magnitude);
  return SelectLess(a, Set(0.625f), near_zero, far);
}

// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the approximation that models are trained with
// (Hendrycks & Gimpel 2016, arXiv:1606.08415). (1 + tanh u) / 2 is sigmoid(2u), which does not cancel for
// negative x.
HF_INLINE F32x16 GeluTanh(F32x16 x) {
  const F32x16 cubic = Fma(Mul(Mul(x, x), x), Set(0.044715f), x);
  return Div(x, Add(Set(1.0f), Exp(Mul(cubic, Set(-1.5957691216f)))));
}

}  // namespace holdfast::HOLDFAST_ISA_NS
