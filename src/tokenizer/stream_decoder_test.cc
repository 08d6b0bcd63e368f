#include <gtest/gtest.h>

#include <random>

#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

TEST(StreamDecoder, GivesACharacterOnlyWhenItIsComplete) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.Add("a\xf0\x9f"), "a");
  EXPECT_EQ(decoder.Add("\x98"), "");
  EXPECT_EQ(decoder.Add("\x80!"), "\xf0\x9f\x98\x80!");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoder, PassesOnWhatCanNeverBecomeACharacterAtOnce) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.Add("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(decoder.Add("\xe2\x82"), "");
  EXPECT_EQ(decoder.Add("x"), "\xef\xbf\xbdx");
  EXPECT_EQ(decoder.Add("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(StreamDecoder, ReplacesACharacterThatNeverEnds) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.Add("\xe6\xbc"), "");
  EXPECT_EQ(decoder.Finish(), "\xef\xbf\xbd");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoder, GivesTheSameTextHoweverTheBytesAreCut) {
  std::mt19937 random(11);
  const std::string bytes =
      "h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 \xff\xe2\x82 \xc0\x80 \xf4\x90\x80\x80 end\xe2";
  StreamDecoder whole;
  std::string expected = whole.Add(bytes);
  expected += whole.Finish();
  EXPECT_TRUE(IsUtf8(expected));
  for (int round = 0; round < 200; ++round) {
    StreamDecoder decoder;
    std::string text;
    for (size_t i = 0; i < bytes.size();) {
      const size_t n = 1 + random() % 4;
      text += decoder.Add(std::string_view(bytes).substr(i, n));
      EXPECT_TRUE(IsUtf8(text));
      i += n;
    }
    EXPECT_EQ(text + decoder.Finish(), expected);
  }
}

}  // namespace
}  // namespace holdfast
