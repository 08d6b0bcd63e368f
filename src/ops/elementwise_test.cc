// Row-wise operations against double references, on every instruction set.
#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace holdfast {
namespace {

std::unique_ptr<ThreadPool> Threads(int n) {
  return std::move(ThreadPool::Create(n)).value();
}

std::vector<float> Random(size_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng);
  return v;
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const auto pool = Threads(2);
  for (int64_t dim : {1, 15, 16, 63, 64, 576, 1000}) {
    constexpr int64_t kRows = 70;
    const int64_t stride = dim + 3;
    const auto x = Random(static_cast<size_t>(kRows * stride), 1, 3.0f);
    const auto weight = Random(static_cast<size_t>(dim), 2);
    for (Isa isa : VectorIsas()) {
      for (bool accumulate : {false, true}) {
        std::vector<float> out(static_cast<size_t>(kRows * dim), 0.5f);
        RmsNorm(x.data(), stride, weight.data(), 1e-5f, kRows, dim, out.data(), dim, accumulate, isa, *pool);
        for (int64_t r = 0; r < kRows; ++r) {
          double sum = 0;
          for (int64_t i = 0; i < dim; ++i) sum += std::pow(x[static_cast<size_t>(r * stride + i)], 2.0);
          const double scale = 1.0 / std::sqrt(sum / static_cast<double>(dim) + 1e-5);
          for (int64_t i = 0; i < dim; ++i) {
            const double expected =
                x[static_cast<size_t>(r * stride + i)] * scale * weight[static_cast<size_t>(i)];
            ASSERT_NEAR(out[static_cast<size_t>(r * dim + i)], expected + (accumulate ? 0.5 : 0.0),
                        1e-6 * std::fabs(expected) + (accumulate ? 1e-6 : 1e-9))
                << IsaName(isa) << " dim " << dim;
          }
        }
      }
    }
  }
}

TEST(RmsNorm, GivesARowTheSameBitsAloneInPlaceAndAmongOthers) {
  const auto one = Threads(1), two = Threads(2);
  const auto x = Random(100 * 576, 3);
  const auto weight = Random(576, 4);
  for (Isa isa : VectorIsas()) {
    std::vector<float> all(x.size()), alone(x.size()), in_place = x;
    RmsNorm(x.data(), 576, weight.data(), 1e-6f, 100, 576, all.data(), 576, false, isa, *two);
    for (size_t r = 0; r < 100; ++r) {
      RmsNorm(&x[r * 576], 576, weight.data(), 1e-6f, 1, 576, &alone[r * 576], 576, false, isa, *one);
    }
    RmsNorm(in_place.data(), 576, weight.data(), 1e-6f, 100, 576, in_place.data(), 576, false, isa, *two);
    EXPECT_EQ(all, alone);
    EXPECT_EQ(all, in_place);
  }
}

TEST(RmsNorm, PropagatesWhatIsNotANumber) {
  const auto pool = Threads(1);
  std::vector<float> x(64, 1.0f), weight(64, 1.0f), out(64);
  x[40] = std::numeric_limits<float>::quiet_NaN();
  for (Isa isa : VectorIsas()) {
    RmsNorm(x.data(), 64, weight.data(), 1e-6f, 1, 64, out.data(), 64, false, isa, *pool);
    for (float v : out) EXPECT_TRUE(std::isnan(v));
  }
}

TEST(GatedActivation, MultipliesTheActivatedGate) {
  const auto pool = Threads(2);
  for (int64_t dim : {1, 17, 1536}) {
    constexpr int64_t kRows = 20;
    const int64_t stride = dim + 5;
    const auto gate = Random(static_cast<size_t>(kRows * stride), 5, 4.0f);
    const auto up = Random(static_cast<size_t>(kRows * stride), 6);
    for (Isa isa : VectorIsas()) {
      for (Activation f : {Activation::kSilu, Activation::kGeluTanh}) {
        auto out = gate;
        GatedActivation(f, out.data(), up.data(), kRows, dim, stride, isa, *pool);
        for (int64_t i = 0; i < kRows * stride; ++i) {
          const auto at = static_cast<size_t>(i);
          if (i % stride >= dim) {
            ASSERT_EQ(out[at], gate[at]) << "beyond the row";
            continue;
          }
          const double x = gate[at];
          const double inner = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
          const double activated =
              f == Activation::kSilu ? x / (1 + std::exp(-x)) : x / (1 + std::exp(-2 * inner));
          ASSERT_NEAR(out[at], activated * up[at], 1e-5 * std::fabs(activated * up[at]) + 1e-7)
              << IsaName(isa) << " x " << x;
        }
      }
    }
  }
}

TEST(GatedActivation, PropagatesWhatIsNotANumberAndSaturatesElsewhere) {
  const auto pool = Threads(1);
  for (Isa isa : VectorIsas()) {
    for (Activation f : {Activation::kSilu, Activation::kGeluTanh}) {
      std::vector<float> gate = {std::numeric_limits<float>::quiet_NaN(), 1e4f, -1e4f};
      const std::vector<float> up = {1.0f, 2.0f, 2.0f};
      GatedActivation(f, gate.data(), up.data(), 1, 3, 3, isa, *pool);
      EXPECT_TRUE(std::isnan(gate[0])) << IsaName(isa);
      EXPECT_EQ(gate[1], 2e4f);
      EXPECT_NEAR(gate[2], 0.0f, 1e-30f);
    }
  }
}

}  // namespace
}  // namespace holdfast
