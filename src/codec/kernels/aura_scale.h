// What the encoders of the aura codecs share: a row's largest magnitude and the scale that they end with.
// Included by kernel files only.
#pragma once

#include "codec/aura_shape.h"
#include "codec/kernels/packed_encode.h"

namespace holdfast::HOLDFAST_ISA_NS {

HF_INLINE F32x16 LoadRowDims(const float* from, int left) {
  return LoadFirst(from, left < 16 ? left : 16);
}

HF_INLINE float LargestMagnitude(const float* values, int n) {
  F32x16 largest = Zero();
  for (int d = 0; d < n; d += 16) largest = Max(largest, Abs(LoadRowDims(values + d, n - d)));
  return HMax(largest);
}

// The stored scale, and what values are multiplied with to become levels.
struct RowScale {
  uint16_t bits = 0;
  float inverse = 0.0f;  // 0 for a row of zeros, or whose scale is below the least f16

  HF_MEMBER void Set(float scale) {
    bits = NearestF16(scale);
    inverse = bits == 0 ? 0.0f : 1.0f / F16Value(bits);
  }
};

// The candidate with the least squared error, after its least-squares scale: with values x and levels y, the
// error is sum x^2 - (sum xy)^2 / sum y^2 at the scale sum xy / sum y^2. The first of equals.
HF_INLINE int BestCandidate(const float* xy, const float* yy, int n) {
  int best = 0;
  float most = xy[0] * xy[0] / yy[0];
  for (int j = 1; j < n; ++j) {
    const float merit = xy[j] * xy[j] / yy[j];
    if (merit > most) {
      most = merit;
      best = j;
    }
  }
  return best;
}

}  // namespace holdfast::HOLDFAST_ISA_NS
