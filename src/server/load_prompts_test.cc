#include "server/load_prompts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace holdfast::load {
namespace {

int64_t WordsIn(const std::string& text) {
  return text.empty() ? 0 : 1 + std::count(text.begin(), text.end(), ' ');
}

size_t CommonPrefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

TEST(PromptMakerTest, PromptsShareTheirBeginningAndNoMore) {
  const PromptMaker maker(7, 1.0);
  const std::string a = maker.Prompt(0, 500, 400), b = maker.Prompt(1, 500, 400);
  EXPECT_EQ(WordsIn(a), 500);
  EXPECT_EQ(WordsIn(b), 500);
  const int64_t shared = WordsIn(a.substr(0, CommonPrefix(a, b)));
  EXPECT_GE(shared, 400);
  EXPECT_LE(shared, 405);
  EXPECT_EQ(a, PromptMaker(7, 1.0).Prompt(0, 500, 400)) << "the seed decides";
  EXPECT_LE(CommonPrefix(a, PromptMaker(8, 1.0).Prompt(0, 500, 400)), 40u) << "another seed, other prompts";
  EXPECT_LE(CommonPrefix(maker.Prompt(0, 500, 0), maker.Prompt(1, 500, 0)), 40u);
  EXPECT_EQ(maker.Prompt(0, 500, 500), maker.Prompt(1, 500, 500));
}

TEST(PromptMakerTest, HasFewerWordsWhereAWordIsSeveralTokens) {
  const PromptMaker maker(7, 2.5);
  EXPECT_EQ(WordsIn(maker.Prompt(0, 500, 0)), 200);
  EXPECT_EQ(WordsIn(maker.Prompt(0, 1, 0)), 1);
}

TEST(PromptMakerTest, EqualHashIdsOfATraceAreEqualText) {
  const PromptMaker maker(7, 1.0);
  const TraceRequest a{.timestamp_ms = 0, .input_tokens = 1100, .output_tokens = 1, .hash_ids = {5, 6, 7}};
  const TraceRequest b{.timestamp_ms = 0, .input_tokens = 1025, .output_tokens = 1, .hash_ids = {5, 6, 8}};
  const std::string text_a = maker.Prompt(a, 0), text_b = maker.Prompt(b, 0);
  EXPECT_EQ(WordsIn(text_a), 1100);
  EXPECT_EQ(WordsIn(text_b), 1025);
  EXPECT_GE(CommonPrefix(text_a, text_b), maker.Prompt(a, 1024).size());
  EXPECT_EQ(WordsIn(maker.Prompt(a, 600)), 600);
  EXPECT_TRUE(text_a.starts_with(maker.Prompt(a, 600)));
}

TEST(PoissonArrivalsTest, HaveTheirRateAndTheirSeed) {
  const auto arrivals = PoissonArrivals(3, 20000, 50.0);
  EXPECT_EQ(arrivals.front(), 0);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_NEAR(static_cast<double>(arrivals.back()) * 1e-9, 400.0, 12.0);  // 4 standard deviations
  EXPECT_EQ(arrivals, PoissonArrivals(3, 20000, 50.0));
  EXPECT_NE(arrivals, PoissonArrivals(4, 20000, 50.0));
}

}  // namespace
}  // namespace holdfast::load
