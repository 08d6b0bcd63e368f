#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace holdfast {
namespace {

SamplingOptions Plain() {
  SamplingOptions o;
  o.temperature = 1.0f;
  o.top_k = 0;
  o.top_p = 1.0f;
  o.min_p = 0.0f;
  return o;
}

std::map<int32_t, int> Counts(const SamplingOptions& options, const std::vector<float>& logits, int draws) {
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sampler.Sample(logits, {}).value()];
  return counts;
}

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.5f), std::log(0.25f), std::log(0.15f)};

TEST(Sampler, GreedyTakesTheFirstOfEqualLargestLogits) {
  SamplingOptions o;
  o.temperature = 0.0f;
  EXPECT_EQ(Sampler(o).Sample(std::vector<float>{1, 3, 3, 2}, {}).value(), 1);
}

TEST(Sampler, DrawsInProportionToProbability) {
  const auto counts = Counts(Plain(), kLogits, 20000);
  EXPECT_NEAR(counts.at(0), 2000, 200);
  EXPECT_NEAR(counts.at(1), 10000, 300);
  EXPECT_NEAR(counts.at(2), 5000, 300);
  EXPECT_NEAR(counts.at(3), 3000, 250);
}

TEST(Sampler, TheSameSeedGivesTheSameTokensAndAnotherSeedOthers) {
  SamplingOptions o = Plain();
  const auto draw = [&](uint64_t seed) {
    o.seed = seed;
    Sampler s(o);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 64; ++i) tokens.push_back(s.Sample(kLogits, {}).value());
    return tokens;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

TEST(Sampler, TopKKeepsTheKLikeliest) {
  SamplingOptions o = Plain();
  o.top_k = 2;
  const auto counts = Counts(o, kLogits, 3000);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.contains(1) && counts.contains(2));
}

TEST(Sampler, TopPKeepsTheFewestThatReachP) {
  SamplingOptions o = Plain();
  o.top_p = 0.74f;  // 0.5 + 0.25 reaches it
  EXPECT_EQ(Counts(o, kLogits, 3000).size(), 2u);
  o.top_p = 0.76f;
  EXPECT_EQ(Counts(o, kLogits, 3000).size(), 3u);
}

TEST(Sampler, MinPDropsWhatIsTooUnlikelyBesideTheLikeliest) {
  SamplingOptions o = Plain();
  o.min_p = 0.4f;  // keeps probabilities >= 0.2
  EXPECT_EQ(Counts(o, kLogits, 3000).size(), 2u);
  o.min_p = 1.0f;
  EXPECT_EQ(Counts(o, kLogits, 100).size(), 1u);
}

TEST(Sampler, LowTemperatureSharpens) {
  SamplingOptions o = Plain();
  o.temperature = 0.05f;
  EXPECT_GT(Counts(o, kLogits, 1000).at(1), 990);
}

TEST(Sampler, RepetitionPenaltyLooksAtTheLastNTokensOnly) {
  SamplingOptions o;
  o.temperature = 0.0f;
  o.repeat_penalty = 2.0f;
  o.repeat_last_n = 2;
  const std::vector<float> logits = {4, 3, -1, 1};
  EXPECT_EQ(Sampler(o).Sample(logits, std::vector<int32_t>{0, 3, 3}).value(), 0) << "token 0 is three back";
  EXPECT_EQ(Sampler(o).Sample(logits, std::vector<int32_t>{3, 0}).value(), 1) << "4 / 2 < 3";
  EXPECT_EQ(Sampler(o).Sample(std::vector<float>{-1, -1.5f}, std::vector<int32_t>{0}).value(), 1)
      << "-1 * 2 < -1.5";
}

TEST(Sampler, NansAreNeverChosenAndAllNansAreAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SamplingOptions o;
  o.temperature = 0.0f;
  EXPECT_EQ(Sampler(o).Sample(std::vector<float>{nan, 1, 2}, {}).value(), 2);
  EXPECT_EQ(Sampler(o).Sample(std::vector<float>{nan, nan}, {}).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(
      Sampler(o).Sample(std::vector<float>{1, std::numeric_limits<float>::infinity()}, {}).status().code(),
      StatusCode::kDataLoss);
}

TEST(Sampler, BadOptionsAreRefusedByName) {
  const auto message = [](auto change) {
    SamplingOptions o;
    change(o);
    const Status s = ValidateSampling(o);
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
    return s.message();
  };
  EXPECT_NE(message([](auto& o) { o.temperature = -1; }).find("temperature is -1"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.temperature = std::nanf(""); }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.top_k = -1; }).find("top_k"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.top_p = 0; }).find("top_p"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.min_p = 1.5f; }).find("min_p"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.repeat_penalty = 0; }).find("repeat_penalty"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.repeat_last_n = -2; }).find("repeat_last_n"), std::string::npos);
}

}  // namespace
}  // namespace holdfast
