#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

namespace holdfast {
namespace {

std::vector<std::string> Words(std::string_view name, std::string_view text) {
  const auto pre = PreTokenizer::Create(name);
  EXPECT_TRUE(pre.ok());
  std::vector<std::string> words;
  const auto lengths = (*pre)->Split(text);
  EXPECT_TRUE(lengths.ok()) << lengths.status().message();
  for (const size_t n : *lengths) {
    words.emplace_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  EXPECT_TRUE(text.empty());
  return words;
}
using List = std::vector<std::string>;

TEST(PreTokenizer, Gpt2KeepsTheSpaceWithTheWord) {
  EXPECT_EQ(Words("gpt-2", "Hello world, it's 2026"), (List{"Hello", " world", ",", " it", "'s", " 2026"}));
  EXPECT_EQ(Words("gpt-2", "a  b \n"), (List{"a", " ", " b", " \n"}));
  EXPECT_EQ(Words("gpt-2", "IT'S"), (List{"IT", "'", "S"}));
}

TEST(PreTokenizer, SmollmTakesDigitsOneByOne) {
  EXPECT_EQ(Words("smollm", "x 120"), (List{"x", " ", "1", "2", "0"}));
  EXPECT_EQ(Words("smollm", "a  1  b"), (List{"a", "  ", "1", " ", " b"}));
  EXPECT_EQ(Words("smollm", "½Ⅷ٣"), (List{"½", "Ⅷ", "٣"}));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesOfToday) {
  EXPECT_EQ(Words("gpt-2", "a\u00a0\u2003b"), (List{"a", "\u00a0", "\u2003", "b"}));
  EXPECT_EQ(Words("gpt-2", "a\u180e!"), (List{"a", "\u180e!"}));  // no longer a space since Unicode 6.3
}

TEST(PreTokenizer, SurrogatesAreNeitherLettersNorSpace) {
  EXPECT_EQ(Words("gpt-2", "a\xed\xa0\x80!\xed\x9f\xbb z"),
            (List{"a", "\xed\xa0\x80!", "\xed\x9f\xbb", " z"}));
}

TEST(PreTokenizer, EmptyTextHasNoWords) {
  EXPECT_EQ(Words("smollm", ""), List{});
}

TEST(PreTokenizer, LongRunsAreOneWord) {
  for (const char c : {'a', ' ', '.', '\n'}) {
    EXPECT_EQ(Words("smollm", std::string(1 << 20, c)).size(), 1u);
  }
  EXPECT_EQ(Words("smollm", std::string(1 << 20, 'a') + "é").size(), 1u);
  EXPECT_EQ(Words("smollm", std::string(1 << 20, '.') + "é").size(), 2u);
  EXPECT_EQ(Words("smollm", std::string(1 << 20, ' ') + "é").size(), 2u);
  EXPECT_EQ(Words("smollm", std::string(1 << 20, '\n') + "é").size(), 3u);
}

// Compiled or interpreted, no length of text is past the limits: these are four times as many characters as
// matches are allowed, so a cost of one a character would show.
TEST(PreTokenizer, NoLengthOfARunMeetsTheLimits) {
  constexpr size_t kBytes = size_t{4} << 20;
  for (const bool compile : {true, false}) {
    for (const char* name : {"gpt-2", "smollm"}) {
      const auto pre = PreTokenizer::Create(name, {.compile = compile});
      ASSERT_TRUE(pre.ok());
      for (const char c : {'a', ' ', '.'}) {
        const std::string text = std::string(kBytes, c) + "1";
        const auto words = (*pre)->Split(text);
        ASSERT_TRUE(words.ok()) << words.status().message() << " of '" << c << "', compiled: " << compile;
        EXPECT_EQ(words->size(), 2u) << name << " '" << c << "'";
      }
    }
  }
}

TEST(PreTokenizer, AMatchThatFailsIsAnErrorAndNotOtherWords) {
  for (const bool compile : {true, false}) {
    const auto pre = PreTokenizer::Create("gpt-2", {.matches = 0, .compile = compile});
    ASSERT_TRUE(pre.ok());
    const Status failed = (*pre)->Split("two words").status();
    EXPECT_EQ(failed.code(), StatusCode::kResourceExhausted) << compile;
    EXPECT_EQ(failed.message(), "cut text into words: PCRE2 error -47 at byte 0 of 9");
  }
}

TEST(PreTokenizer, MatchesFromSeveralThreads) {
  const auto pre = PreTokenizer::Create("smollm");
  ASSERT_TRUE(pre.ok());
  const std::string text = "The rain in Spain, 1850 times, stays mainly in the plain.  \n";
  const auto expected = (*pre)->Split(text).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) EXPECT_EQ((*pre)->Split(text).value(), expected);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace holdfast
