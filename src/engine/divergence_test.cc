// Sums over distributions: against the standard library in long double, and the same bits on every instruction
// set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/distribution.h"

namespace holdfast {
namespace {

const DivergenceKernels& KernelsOf(Isa isa) {
  return HOLDFAST_SELECT_KERNELS(isa, kDivergenceKernels);
}

std::vector<float> RandomLogits(int64_t n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

struct Expected {
  int64_t most_likely;
  double kld, surprise_of_last;
};
Expected Oracle(const std::vector<float>& p, const std::vector<float>& q) {
  const auto log_sum = [](const std::vector<float>& x) {
    const float top = *std::max_element(x.begin(), x.end());
    long double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<long double>(v) - top);
    return std::log(sum) + static_cast<long double>(top);
  };
  const long double p_sum = log_sum(p), q_sum = log_sum(q);
  long double kld = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const long double log_p = p[i] - p_sum, log_q = q[i] - q_sum;
    kld += std::exp(log_p) * (log_p - log_q);
  }
  return {std::max_element(q.begin(), q.end()) - q.begin(), static_cast<double>(kld),
          static_cast<double>(q_sum - static_cast<long double>(q.back()))};
}

TEST(Divergence, IsTheFormulaForEverySizeAndSpread) {
  for (const int64_t n : {1, 2, 7, 8, 9, 31, 1000, 49152}) {
    for (const float spread : {0.01f, 3.0f, 40.0f, 2000.0f}) {
      const std::vector<float> p = RandomLogits(n, spread, 1), noise = RandomLogits(n, 0.1f, 2);
      std::vector<float> q = p;
      for (size_t i = 0; i < q.size(); ++i) q[i] += noise[i] - 5.0f;
      const Expected expected = Oracle(p, q);
      for (const Isa isa : VectorIsas()) {
        const DivergenceKernels& kernels = KernelsOf(isa);
        const Distribution reference = MakeDistribution(kernels, p.data(), n);
        Distribution scheme = MakeDistribution(kernels, q.data(), n);
        const double sum = scheme.sum;
        const double kld = Divergence(kernels, reference, scheme);
        EXPECT_EQ(scheme.sum, sum) << "both ways to sum give the same bits";
        EXPECT_EQ(scheme.most_likely, expected.most_likely);
        EXPECT_NEAR(kld, expected.kld, 1e-14 + 1e-12 * expected.kld) << n << " logits of spread " << spread;
        EXPECT_NEAR(scheme.Surprise(static_cast<int32_t>(n - 1)), expected.surprise_of_last,
                    1e-12 * (1.0 + expected.surprise_of_last));
      }
    }
  }
}

TEST(Divergence, IsTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> p = RandomLogits(5003, 4.0f, 3), q = RandomLogits(5003, 4.0f, 4);
  const DivergenceKernels& scalar = KernelsOf(Isa::kScalar);
  const Distribution p_scalar = MakeDistribution(scalar, p.data(), 5003);
  Distribution q_scalar = MakeDistribution(scalar, q.data(), 5003);
  const double expected = Divergence(scalar, p_scalar, q_scalar);
  for (const Isa isa : VectorIsas()) {
    const Distribution p_isa = MakeDistribution(KernelsOf(isa), p.data(), 5003);
    Distribution q_isa = MakeDistribution(KernelsOf(isa), q.data(), 5003);
    EXPECT_EQ(Divergence(KernelsOf(isa), p_isa, q_isa), expected) << IsaName(isa);
    EXPECT_EQ(p_isa.sum, p_scalar.sum) << IsaName(isa);
    EXPECT_EQ(q_isa.sum, q_scalar.sum) << IsaName(isa);
  }
}

TEST(Divergence, OfEqualLogitsIsExactlyZeroAndOfEqualsTheFirstIsTheMostLikely) {
  std::vector<float> p(77, 1.5f);
  for (const Isa isa : VectorIsas()) {
    const Distribution reference = MakeDistribution(KernelsOf(isa), p.data(), 77);
    Distribution same = MakeDistribution(KernelsOf(isa), p.data(), 77);
    EXPECT_EQ(Divergence(KernelsOf(isa), reference, same), 0.0);
    EXPECT_EQ(reference.most_likely, 0);
    EXPECT_DOUBLE_EQ(reference.Surprise(5), std::log(77.0));
  }
  p[19] = p[40] = 2.0f;
  for (const Isa isa : VectorIsas()) EXPECT_EQ(KernelsOf(isa).first_largest(p.data(), 77), 19);
}

}  // namespace
}  // namespace holdfast
