// What the encoders of the aura codecs share: the scale that they end with.
// Included by kernel files only.
#pragma once

#include "codec/aura_shape.h"
#include "codec/kernels/packed_encode.h"

namespace holdfast::HOLDFAST_ISA_NS {

// What an encoder knows of a row once it is measured.
struct AuraRow {
  uint16_t scale = 0;    // stored, f16
  float inverse = 0.0f;  // values times it are levels, to be rounded; 0 for a row of zeros
};

// The candidate whose levels y lie nearest to the direction of the values x: the most (sum xy)^2 / sum y^2, which is
// the least squared error at the least-squares scale sum xy / sum y^2. The first of equals.
HF_INLINE int BestCandidate(const float* xy, const float* yy, int n) {
  int best = 0;
  float most = xy[0] * __builtin_fabsf(xy[0]) / yy[0];
  for (int j = 1; j < n; ++j) {
    const float merit = xy[j] * __builtin_fabsf(xy[j]) / yy[j];
    if (merit > most) {
      most = merit;
      best = j;
    }
  }
  return best;
}

// The scale that is stored. At the least-squares one a decoded row is too short, by as much as its own error, and what
// rows have in common, which is most of a key, turns that into noise of the scores. kProjection: sum x^2 / sum xy,
// at which a decoded row is as long as the row in the row's own direction, <x, decoded> = <x, x>; the squared error
// D becomes D / (1 - D), which is little from 3 bits on. kNorm: sqrt(sum x^2 / sum y^2), half way there, and where
// levels point elsewhere anyway (D above 3/4: rows that were not rotated).
enum class Keeps { kProjection, kNorm };

// levels_of(x): the levels of 16 values that are counted in levels.
template <Keeps keeps, typename LevelsOf>
HF_INLINE AuraRow FitScale(const float* values, int n, float inverse, LevelsOf levels_of) {
  F32x16 xx_sum = Zero();
  F32x16 xy_sum = Zero();
  F32x16 yy_sum = Zero();
  for (int d = 0; d < n; d += 16) {
    const F32x16 x = Mul(LoadRowDims(values + d, n - d), Set(inverse));
    const F32x16 y = levels_of(x);
    xx_sum = Add(xx_sum, Mul(x, x));
    xy_sum = Add(xy_sum, Mul(x, y));
    yy_sum = Add(yy_sum, Mul(y, y));
  }
  // Lanes past the end are 0, and took its level.
  const float padding = HMax(Abs(levels_of(Zero())));
  const float xx = HSum(xx_sum);
  const float xy = HSum(xy_sum);
  const float yy = HSum(yy_sum) - static_cast<float>((n + 15) / 16 * 16 - n) * padding * padding;
  const bool near = xy > 0.0f && xy * xy > 0.25f * (xx * yy);
  const float ratio = keeps == Keeps::kProjection && near ? xx / xy : HMax(Sqrt(Set(xx / yy)));
  return {NearestF16(ratio / inverse), inverse};
}

}  // namespace holdfast::HOLDFAST_ISA_NS
