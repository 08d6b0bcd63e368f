// Sums over a next-token distribution and its divergence from another, in double from f32 logits.
#pragma once

#include <cstdint>

#include "simd/isa.h"

namespace holdfast {

struct DivergenceKernels {
  // The first index of the largest of x[n]. REQUIRES n >= 1 and no NaN.
  int64_t (*first_largest)(const float* x, int64_t n);
  // The sum of e^(x[i] - top). REQUIRES x[i] <= top.
  double (*exp_sum)(const float* x, int64_t n, float top);
  // With a = p[i] - p_top and b = q[i] - q_top: *q_sum = the sum of e^b, and the return value is the sum of
  // e^a (a - b). Then with p_sum the sum of e^a,
  //   KL(softmax(p) || softmax(q)) = result / p_sum - log(p_sum) + log(*q_sum).
  // REQUIRES p[i] <= p_top and q[i] <= q_top.
  double (*cross_sum)(const float* p, float p_top, const float* q, float q_top, int64_t n, double* q_sum);
};
HOLDFAST_DECLARE_KERNELS(DivergenceKernels, kDivergenceKernels)

}  // namespace holdfast
