#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/softmax_weights.h"

namespace holdfast {
namespace {

std::vector<float> Logits(int n) {
  std::vector<float> logits;
  for (int i = 0; i < n; ++i) logits.push_back(std::sin(static_cast<float>(i) * 12.9898f) * 9.0f);
  return logits;
}

TEST(SoftmaxWeights, AreExpWithinTheirBound) {
  std::vector<float> logits;
  for (int i = 0; i < 20000; ++i) logits.push_back(-0.0045f * static_cast<float>(i));
  std::vector<float> weights(logits.size());
  double sum = 0.0;
  for (const float scale : {1.0f, 0.25f, 3.0f}) {
    const double got = SoftmaxWeights(logits, 0.0f, scale, weights.data());
    sum = 0.0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double x = static_cast<double>(logits[i] * scale);
      if (x < -87.0) {
        EXPECT_EQ(weights[i], 0.0f);
        continue;
      }
      EXPECT_NEAR(static_cast<double>(weights[i]) / std::exp(x), 1.0, 3e-7) << x;
      sum += std::exp(x);
    }
    EXPECT_NEAR(got / sum, 1.0, 3e-7);
  }
}

TEST(Logprobs, AreThoseOfTheSoftmaxOverTheWholeVocabulary) {
  const std::vector<float> logits = Logits(1003);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<float> weights;
  const TokenLogprobs result = LogprobsOf(logits, 77, 20, weights);
  EXPECT_EQ(result.chosen.token, 77);
  EXPECT_NEAR(static_cast<double>(result.chosen.logprob), static_cast<double>(logits[77]) - std::log(sum),
              2e-6);
  ASSERT_EQ(result.top.size(), 20u);
  for (size_t i = 0; i < result.top.size(); ++i) {
    const auto token = static_cast<size_t>(result.top[i].token);
    EXPECT_NEAR(static_cast<double>(result.top[i].logprob),
                static_cast<double>(logits[token]) - std::log(sum), 2e-6);
    if (i > 0) {
      EXPECT_LE(result.top[i].logprob, result.top[i - 1].logprob);
    }
  }
  size_t larger = 0;
  for (const float logit : logits) {
    larger += logit > logits[static_cast<size_t>(result.top.back().token)] ? 1u : 0u;
  }
  EXPECT_LE(larger, 19u) << "nothing outside is more probable than the last of the top";
}

TEST(Logprobs, TiesComeInTheOrderOfTheirTokensAndNansAreLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> weights;
  const TokenLogprobs result = LogprobsOf(std::vector<float>{1, nan, 2, 1, 2}, 0, 3, weights);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].token, 2);
  EXPECT_EQ(result.top[1].token, 4);
  EXPECT_EQ(result.top[2].token, 0);
  EXPECT_NEAR(static_cast<double>(result.top[0].logprob), -std::log(2.0 + 2.0 / std::exp(1.0)), 1e-6);
}

TEST(Logprobs, NoneOnTopIsTheChosenOneAlone) {
  std::vector<float> weights;
  const TokenLogprobs result = LogprobsOf(Logits(64), 5, 0, weights);
  EXPECT_EQ(result.chosen.token, 5);
  EXPECT_TRUE(result.top.empty());
}

}  // namespace
}  // namespace holdfast
