// The next-token distribution that a row of logits stands for.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/divergence_kernels.h"

namespace holdfast {

struct Distribution {
  const float* logits = nullptr;
  int64_t size = 0;
  int64_t most_likely = 0;  // the first of equals
  float top = 0;            // its logit
  double sum = 0;           // of e^(logit - top)

  // -log of the probability of `token`.
  double Surprise(int32_t token) const {
    return std::log(sum) - (static_cast<double>(logits[token]) - static_cast<double>(top));
  }
};

// logits must outlive the result. REQUIRES size >= 1 and no NaN.
inline Distribution MakeDistribution(const DivergenceKernels& kernels, const float* logits, int64_t size) {
  const int64_t first = kernels.first_largest(logits, size);
  return {logits, size, first, logits[first], kernels.exp_sum(logits, size, logits[first])};
}

// KL(p || q) in nats, where q's sum is not known yet: fills it in. Never negative; 0 for equal logits.
inline double Divergence(const DivergenceKernels& kernels, const Distribution& p, Distribution& q) {
  const double cross = kernels.cross_sum(p.logits, p.top, q.logits, q.top, p.size, &q.sum);
  const double kld = cross / p.sum - std::log(p.sum) + std::log(q.sum);
  return kld > 0.0 ? kld : 0.0;
}

}  // namespace holdfast
