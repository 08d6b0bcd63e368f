// The search for a group's scale (and bias) where steps are few: affine4 and q4_0.
//
// The range that holds all of a group's values wastes levels on its ends: a narrower one clips one or two values and
// brings the others nearer to theirs. Sixteen ranges are tried, one a lane, the first of them the whole one. The
// codes of the best get the scale and bias of least squares; those are rounded to f16, and the values coded anew.
// That is kept where it beats the whole range and leaves every value within a step of its level: a group that lies
// on the levels already, as a decoded one does, stays as it is.
//
// Everything is in levels of the whole range: x = (value - bias) / scale, of 0 .. kMostLevel.
// Included by kernel files only.
#pragma once

#include "codec/kernels/packed_encode.h"

namespace holdfast::HOLDFAST_ISA_NS {

// The level in a range is factor * x - shift, and its step 1 / factor.
struct SearchRanges {
  alignas(64) float factor[16];
  alignas(64) float shift[16];
  alignas(64) float step_squared[16];

  // Range i: levels start at x = low and are `step` apart.
  constexpr void Put(int i, float low, float step) {
    factor[i] = 1.0f / step;
    shift[i] = low / step;
    step_squared[i] = step * step;
  }
};

// ranges: a SearchRanges of static storage, a template argument's so that its vectors are constants.
template <int kBits, const SearchRanges& kRanges>
struct RangeSearch {
  static constexpr float kMostLevel = static_cast<float>((1 << kBits) - 1);

  alignas(64) float x[kMaxDim];  // n of them, a multiple of 16: the caller's to fill
  int n;
  float whole_error;  // squared, of the whole range

  // Of the best range's codes.
  struct Sums {
    float codes, squares, products, values, value_squares;
  };

  HF_INLINE F32x16 Clamped(F32x16 level) { return Max(Min(level, Set(kMostLevel)), Zero()); }

  HF_MEMBER Sums Search() {
    const int best = Best();
    const F32x16 factor = Set(kRanges.factor[best]);
    const F32x16 shift = Set(-kRanges.shift[best]);
    F32x16 codes = Zero();
    F32x16 squares = Zero();
    F32x16 products = Zero();
    F32x16 values = Zero();
    F32x16 value_squares = Zero();
    for (int d = 0; d < n; d += 16) {
      const F32x16 v = Load(x + d);
      const F32x16 code = ToF32(RoundToI32(Clamped(Fma(v, factor, shift))));
      codes = Add(codes, code);
      squares = Fma(code, code, squares);
      products = Fma(code, v, products);
      values = Add(values, v);
      value_squares = Fma(v, v, value_squares);
    }
    return {HSum(codes), HSum(squares), HSum(products), HSum(values), HSum(value_squares)};
  }

  // The first of the best.
  HF_MEMBER int Best() {
    const F32x16 factor = Load(kRanges.factor);
    const F32x16 shift = Neg(Load(kRanges.shift));
    F32x16 error = Zero();
    for (int i = 0; i < n; ++i) {
      const F32x16 level = Fma(Set(x[i]), factor, shift);
      const F32x16 inside = Clamped(level);
      const F32x16 off = Add(Sub(level, inside), Fraction(inside));
      error = Fma(off, off, error);
    }
    alignas(64) float errors[16];
    Store(errors, Mul(error, Load(kRanges.step_squared)));
    whole_error = errors[0];
    int best = 0;
    for (int i = 1; i < 16; ++i) {
      if (errors[i] < errors[best]) best = i;
    }
    return best;
  }

  // Whether scale * code + bias is better than the whole range. codes_at(d): the codes of values d .. d + 15.
  template <typename CodesAt>
  HF_MEMBER bool Beats(float scale, float bias, CodesAt codes_at) const {
    F32x16 error = Zero();
    F32x16 most = Zero();
    for (int d = 0; d < n; d += 16) {
      const F32x16 off = Sub(Load(x + d), Fma(ToF32(codes_at(d)), Set(scale), Set(bias)));
      error = Fma(off, off, error);
      most = Max(most, Abs(off));
    }
    return HSum(error) < whole_error && HMax(most) <= 1.0f;
  }
};

}  // namespace holdfast::HOLDFAST_ISA_NS
