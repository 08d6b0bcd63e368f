#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(Utf8, EveryCodePointReadsBackAsItself) {
  for (int32_t c = 0; c <= 0x10ffff; ++c) {
    std::string text;
    AppendUtf8(c, &text);
    size_t size = 0;
    bool incomplete = false;
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    ASSERT_EQ(ReadCharacter(text, 0, &size, &incomplete), surrogate ? -1 : c);
    if (!surrogate) {
      ASSERT_EQ(size, text.size());
    }
    ASSERT_EQ(CharacterBytes(text, 0), text.size());
    ASSERT_EQ(RepairUtf8(text), text);
  }
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndWhatIsTooLarge) {
  for (const char* text :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\x80", "\xff", "\xc3(", "\xe2\x82", "\xf0\x9f\x98"}) {
    EXPECT_FALSE(IsUtf8(text)) << testing::PrintToString(text);
  }
}

TEST(Utf8, RepairReadsAsLlamaCppDoes) {
  EXPECT_EQ(RepairUtf8("a\xff"
                       "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(RepairUtf8("\xf0\x9f\x98"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(RepairUtf8("\xc0\x80"), std::string(1, '\0'));
  EXPECT_EQ(RepairUtf8("\xed\xa0\x80"), "\xed\xa0\x80");
  EXPECT_EQ(RepairUtf8("\xf4\x90\x80\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Utf8, CharacterBytesNeverPassTheEnd) {
  EXPECT_EQ(CharacterBytes("\xf0", 0), 1u);
  EXPECT_EQ(CharacterBytes("\xf0\x9f", 0), 2u);
  EXPECT_EQ(CharacterBytes("\x80\x80", 0), 1u);
}

}  // namespace
}  // namespace holdfast
