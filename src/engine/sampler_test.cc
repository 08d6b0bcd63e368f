#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Draws with scratch of its own.
Result<int32_t> Sample(Sampler& sampler, const std::vector<float>& logits, const TokenHistory& history = {}) {
  SamplerScratch scratch;
  return sampler.Sample(logits, history, scratch);
}

Result<int32_t> Sample(const SamplingOptions& options, const std::vector<float>& logits,
                       const TokenHistory& history = {}) {
  Sampler sampler(options);
  return Sample(sampler, logits, history);
}

std::map<int32_t, int> Counts(const SamplingOptions& options, const std::vector<float>& logits, int draws) {
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[Sample(sampler, logits).value()];
  return counts;
}

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.5f), std::log(0.25f), std::log(0.15f)};

TEST(Sampler, GreedyTakesTheFirstOfEqualLargestLogits) {
  SamplingOptions o;
  o.temperature = 0.0f;
  EXPECT_EQ(Sample(o, {1, 3, 3, 2}).value(), 1);
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
    for (int i = 0; i < 64; ++i) tokens.push_back(Sample(s, kLogits).value());
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
  EXPECT_EQ(Sample(o, logits, {std::vector<int32_t>{0, 3, 3}}).value(), 0) << "token 0 is three back";
  EXPECT_EQ(Sample(o, logits, {std::vector<int32_t>{3, 0}}).value(), 1) << "4 / 2 < 3";
  EXPECT_EQ(Sample(o, {-1, -1.5f}, {std::vector<int32_t>{0}}).value(), 1) << "-1 * 2 < -1.5";
}

TEST(Sampler, NansAreNeverChosenAndAllNansAreAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SamplingOptions o;
  o.temperature = 0.0f;
  EXPECT_EQ(Sample(o, {nan, 1, 2}).value(), 2);
  EXPECT_EQ(Sample(o, {nan, nan}).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Sample(o, {1, std::numeric_limits<float>::infinity()}).status().code(), StatusCode::kDataLoss);
}

TEST(Sampler, BadOptionsAreRefusedByName) {
  const auto message = [](auto change) {
    SamplingOptions o;
    change(o);
    const Status s = ValidateSampling(o, 100);
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
  EXPECT_NE(message([](auto& o) { o.presence_penalty = 2.5f; }).find("presence_penalty is 2.5"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.frequency_penalty = std::nanf(""); }).find("frequency_penalty"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.logit_bias = {{3, 101.0f}}; }).find("token 3 is 101"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.logit_bias = {{100, 1.0f}}; }).find("token 100"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.logit_bias.resize(1025); }).find("1025"), std::string::npos);
}

TEST(Sampler, PresenceAndFrequencyPenaltiesCountTheAnswerAndNotThePrompt) {
  SamplingOptions o;
  o.temperature = 0.0f;
  const std::vector<float> logits = {4.0f, 3.5f, 3.0f};
  const std::vector<int32_t> tokens = {0, 0, 0, 0, 1};  // an answer of 0, 0, 1 after a prompt of 0, 0
  o.frequency_penalty = 0.4f;                           // 4 - 2 * 0.4 = 3.2 and 3.5 - 0.4 = 3.1
  EXPECT_EQ(Sample(o, logits, {tokens, 3}).value(), 0);
  EXPECT_EQ(Sample(o, logits, {tokens, 5}).value(), 1) << "4 - 4 * 0.4 = 2.4 < 3.1";
  o.frequency_penalty = 0.0f;
  o.presence_penalty = 0.8f;  // 3.2, 2.7: once however often
  EXPECT_EQ(Sample(o, logits, {tokens, 5}).value(), 0);
  o.presence_penalty = 1.5f;
  EXPECT_EQ(Sample(o, logits, {tokens, 5}).value(), 2);
  o.presence_penalty = -1.0f;
  EXPECT_EQ(Sample(o, logits, {tokens, 1}).value(), 1) << "a negative penalty makes 3.5 + 1 the largest";
}

TEST(Sampler, ABiasOfAHundredDecidesEitherWay) {
  SamplingOptions o = Plain();
  o.logit_bias = {{1, -100.0f}, {2, 50.0f}, {2, 50.0f}};
  EXPECT_EQ(Counts(o, kLogits, 200), (std::map<int32_t, int>{{2, 200}}));
  o.logit_bias = {{1, -100.0f}};
  EXPECT_FALSE(Counts(o, kLogits, 2000).contains(1));
}

// Softmax of many logits by the definition, and what each cut keeps of it.
TEST(Sampler, CutsOverALargeVocabularyKeepWhatTheirDefinitionsKeep) {
  std::vector<float> logits;
  uint64_t state = 5;
  for (int i = 0; i < 5000; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    logits.push_back(static_cast<float>(state >> 40) * 0x1p-24f * 6.0f);
  }
  std::vector<std::pair<double, int32_t>> sorted;
  double total = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sorted.push_back({-std::exp(static_cast<double>(logits[i])), static_cast<int32_t>(i)});
    total -= sorted.back().first;
  }
  std::sort(sorted.begin(), sorted.end());
  const auto allowed = [&](double p) {
    std::map<int32_t, int> tokens;
    double sum = 0.0;
    for (const auto& [weight, token] : sorted) {
      tokens[token] = 1;
      sum -= weight;
      if (sum >= p * total) break;
    }
    return tokens;
  };
  SamplingOptions o = Plain();
  o.top_p = 0.05f;  // some 75 of the 5000
  const auto kept = allowed(static_cast<double>(o.top_p));
  const auto drawn = Counts(o, logits, 3000);
  for (const auto& [token, count] : drawn) EXPECT_TRUE(kept.contains(token)) << token;
  EXPECT_GT(drawn.size(), kept.size() * 9 / 10);
  o.top_k = 5000;  // the same choice by the other path, bit for bit in what is kept
  for (const auto& [token, count] : Counts(o, logits, 50)) EXPECT_TRUE(kept.contains(token)) << token;
  o = Plain();
  o.top_k = 20;
  for (const auto& [token, count] : Counts(o, logits, 1000)) {
    const auto rank = std::find_if(sorted.begin(), sorted.end(),
                                   [token = token](const auto& s) { return s.second == token; });
    EXPECT_LT(rank - sorted.begin(), 20);
  }
}

TEST(Sampler, AVanishingTemperatureIsGreedy) {
  SamplingOptions o = Plain();
  o.temperature = 1e-42f;
  EXPECT_EQ(Counts(o, kLogits, 10), (std::map<int32_t, int>{{1, 10}}));
}

}  // namespace
}  // namespace holdfast
