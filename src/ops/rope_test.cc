// Rotations against angles computed one by one in double.
#include "ops/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace holdfast {
namespace {

std::unique_ptr<ThreadPool> Threads(int n) {
  return std::move(ThreadPool::Create(n)).value();
}

std::vector<float> Random(size_t n) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng);
  return v;
}

void ExpectRotated(int head_dim, int rotary_dim, RopePairing pairing) {
  const auto pool = Threads(2);
  const auto rope = Rope::Create(head_dim, rotary_dim, 10000.0, pairing, {}, {});
  ASSERT_TRUE(rope.ok());
  constexpr int64_t kTokens = 90, kHeads = 3;
  const int64_t stride = kHeads * head_dim + 7;
  std::vector<int64_t> positions;
  for (int64_t t = 0; t < kTokens; ++t) positions.push_back(t < 45 ? t : 8000 + 3 * t);
  const auto x = Random(static_cast<size_t>(kTokens * stride));
  for (Isa isa : VectorIsas()) {
    auto out = x;
    rope->Apply(out.data(), kTokens, kHeads, stride, positions, isa, *pool);
    auto expected = std::vector<double>(x.begin(), x.end());
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int i = 0; i < rotary_dim / 2; ++i) {
          const double angle = static_cast<double>(positions[static_cast<size_t>(t)]) *
                               std::pow(10000.0, -2.0 * i / rotary_dim);
          const bool halves = pairing == RopePairing::kHalves;
          const auto at = static_cast<size_t>(t * stride + h * head_dim);
          const size_t first = at + static_cast<size_t>(halves ? i : 2 * i);
          const size_t second = at + static_cast<size_t>(halves ? i + rotary_dim / 2 : 2 * i + 1);
          const double a = x[first], b = x[second];
          expected[at + static_cast<size_t>(i)] = a * std::cos(angle) - b * std::sin(angle);
          expected[at + static_cast<size_t>(i + rotary_dim / 2)] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
    }
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], expected[i], 1e-6) << IsaName(isa) << " " << i;
  }
}

TEST(Rope, RotatesPairsAcrossHalves) {
  ExpectRotated(64, 64, RopePairing::kHalves);
}
TEST(Rope, RotatesPairsAcrossHalvesOfAnOddWidth) {
  ExpectRotated(40, 20, RopePairing::kHalves);
}
TEST(Rope, RotatesNeighbouringPairsIntoHalves) {
  ExpectRotated(64, 64, RopePairing::kInterleaved);
}
TEST(Rope, LeavesValuesPastRotaryDimAlone) {
  ExpectRotated(64, 32, RopePairing::kInterleaved);
}

TEST(Rope, GivesATokenTheSameBitsAloneAndInABatch) {
  const auto one = Threads(1), two = Threads(2);
  const auto rope = Rope::Create(64, 64, 1e5, RopePairing::kHalves, {}, {});
  const auto x = Random(600 * 64);
  std::vector<int64_t> positions(600);
  for (size_t t = 0; t < 600; ++t) positions[t] = static_cast<int64_t>(t * 13);
  auto all = x, alone = x;
  RopeTable table;
  rope->Fill(positions, table, *two);
  rope->Apply(all.data(), 600, 1, 64, table, ActiveIsa(), *two);
  for (size_t t = 0; t < 600; ++t) {
    rope->Apply(&alone[t * 64], 1, 1, 64, std::span(positions).subspan(t, 1), ActiveIsa(), *one);
  }
  EXPECT_EQ(all, alone);
}

// The angle of pair i at position 1, read back from a rotated unit vector.
double Frequency(const Rope& rope, int head_dim, int i) {
  const auto pool = Threads(1);
  std::vector<float> x(static_cast<size_t>(head_dim), 0.0f);
  x[static_cast<size_t>(i)] = 1.0f;
  const int64_t position = 1;
  rope.Apply(x.data(), 1, 1, head_dim, {&position, 1}, Isa::kScalar, *pool);
  return std::atan2(x[static_cast<size_t>(i + head_dim / 2)], x[static_cast<size_t>(i)]);
}

TEST(Rope, LinearScalingDividesEveryFrequency) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kLinear;
  scaling.factor = 8.0;
  const auto rope = Rope::Create(64, 64, 1e6, RopePairing::kHalves, scaling, {});
  for (int i = 0; i < 32; ++i) {
    const double expected = std::pow(1e6, -i / 32.0) / 8;
    EXPECT_NEAR(Frequency(*rope, 64, i), expected, 1e-6 * expected);
  }
}

// Values of transformers' _compute_llama3_parameters for Llama 3.2 (theta 500000, factor 32, 1 and 4, 8192).
TEST(Rope, Llama3ScalingKeepsShortWavesDividesLongOnesAndBlendsBetween) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = 32.0;
  const auto rope = Rope::Create(64, 64, 500000.0, RopePairing::kHalves, scaling, {});
  for (int i = 0; i < 32; ++i) {
    const double plain = std::pow(500000.0, -i / 32.0);
    const double wavelength = 2 * M_PI / plain;
    double expected = plain;
    if (wavelength > 8192.0) {
      expected = plain / 32;
    } else if (wavelength > 8192.0 / 4) {
      const double smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
      expected = (1 - smooth) * plain / 32 + smooth * plain;
    }
    EXPECT_NEAR(Frequency(*rope, 64, i), expected, 1e-6 * expected) << i;
  }
}

TEST(Rope, FrequencyFactorsDivideTheirPair) {
  std::vector<float> factors(32, 1.0f);
  factors[5] = 4.0f;
  const auto rope = Rope::Create(64, 64, 1e4, RopePairing::kHalves, {}, factors);
  for (int i : {4, 5, 6}) {
    const double expected = std::pow(1e4, -i / 32.0) / (i == 5 ? 4 : 1);
    EXPECT_NEAR(Frequency(*rope, 64, i), expected, 1e-6 * expected);
  }
}

TEST(Rope, RefusesWhatIsNoRotation) {
  const auto refusal = [](int head_dim, int rotary_dim, double base, RopeScaling scaling,
                          std::vector<float> factors) {
    const auto rope = Rope::Create(head_dim, rotary_dim, base, RopePairing::kHalves, scaling, factors);
    EXPECT_FALSE(rope.ok());
    return rope.ok() ? std::string() : rope.status().message();
  };
  EXPECT_NE(refusal(64, 63, 1e4, {}, {}).find("63"), std::string::npos);
  EXPECT_NE(refusal(64, 66, 1e4, {}, {}).find("66"), std::string::npos);
  EXPECT_NE(refusal(64, 0, 1e4, {}, {}).find("rotary_dim 0"), std::string::npos);
  EXPECT_NE(refusal(8192, 8192, 1e4, {}, {}).find("past 4096"), std::string::npos);
  EXPECT_NE(refusal(64, 64, -1.0, {}, {}).find("base"), std::string::npos);
  EXPECT_NE(refusal(64, 64, std::nan(""), {}, {}).find("base"), std::string::npos);
  EXPECT_NE(refusal(64, 64, 1e4, {}, {1.0f}).find("needs 32"), std::string::npos);
  EXPECT_NE(refusal(64, 64, 1e4, {}, std::vector<float>(32, 0.0f)).find("factor 0"), std::string::npos);
  EXPECT_NE(refusal(64, 64, 1e4, {.kind = RopeScaling::Kind::kLinear, .factor = 0}, {}).find("factor"),
            std::string::npos);
  EXPECT_NE(refusal(64, 64, 1e4, {.kind = RopeScaling::Kind::kLlama3, .low_freq_factor = 5}, {})
                .find("low_freq_factor"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast
