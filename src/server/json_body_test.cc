#include "server/json_body.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast::server {
namespace {

std::string Nested(int depth, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(JsonBody, ReadsWhatTheLibraryReads) {
  const std::string text =
      R"({"a":[1,-2,3.5,"x\n\u00e4",null,true,{"b":{}}],"c":18446744073709551615,"d":[]})";
  const auto json = ParseJsonBody(text);
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ(*json, Json::parse(text));
  EXPECT_EQ(ParseJsonBody(" 7 ").value(), Json(7));
  EXPECT_EQ(ParseJsonBody("[[1,[2]],[3]]").value(), Json::parse("[[1,[2]],[3]]"));
}

TEST(JsonBody, TheLastOfTwoEqualKeysCounts) {
  EXPECT_EQ(ParseJsonBody(R"({"a":1,"a":2})").value(), Json::parse(R"({"a":2})"));
}

TEST(JsonBody, SixtyFourLevelsAreTheLimit) {
  EXPECT_TRUE(ParseJsonBody(Nested(64, "[", "]")).ok());
  EXPECT_TRUE(ParseJsonBody(Nested(64, "{\"a\":", "}")).ok());
  for (const std::string& text : {Nested(65, "[", "]"), Nested(65, "{\"a\":", "}"), Nested(100'000, "[", "]"),
                                  std::string(1 << 20, '[')}) {
    const auto json = ParseJsonBody(text);
    ASSERT_FALSE(json.ok());
    EXPECT_NE(json.status().message().find("deeper than 64"), std::string::npos) << json.status().message();
  }
}

TEST(JsonBody, AMillionValuesAreTheLimit) {
  std::string text = "[";
  for (int i = 0; i < (1 << 20); ++i) text += "0,";
  text.back() = ']';
  const auto json = ParseJsonBody(text);
  ASSERT_FALSE(json.ok());
  EXPECT_NE(json.status().message().find("1048576 values"), std::string::npos);
}

TEST(JsonBody, WhatIsNoJsonIsRefusedWithAPlaceAndACause) {
  for (const char* text : {"",
                           "{",
                           "{\"a\":}",
                           "[1,]",
                           "{'a':1}",
                           "nul",
                           "{\"a\":1}x",
                           "[1 2]",
                           "\"abc",
                           "[\"a\nb\"]",
                           "01",
                           "[1e999]",
                           "[-1e999]",
                           "[NaN]",
                           "[Infinity]",
                           "\"\xff\"",
                           "\"\xc3\"",
                           "\"\xed\xa0\x80\"",
                           "\"\\ud800\"",
                           "\"\\x41\"",
                           "{1:2}",
                           "/**/1"}) {
    const auto json = ParseJsonBody(text);
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(json.status().message().starts_with("request body: not valid JSON: byte "))
        << json.status().message();
  }
}

TEST(JsonBody, ANulEndsNoBody) {
  for (const std::string_view text :
       {std::string_view("{\"a\":1}\0", 8), std::string_view("{\"a\":1}\0{\"b\":2}", 15),
        std::string_view("\0{}", 3), std::string_view("[1\0]", 4), std::string_view("\"\0\"", 3)}) {
    const auto json = ParseJsonBody(text);
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_TRUE(json.status().message().starts_with("request body: not valid JSON: byte "))
        << json.status().message();
  }
  EXPECT_TRUE(ParseJsonBody(R"("\u0000")").ok());
}

TEST(JsonBody, ARefusalDoesNotRepeatALongBody) {
  for (const std::string& body : {"[" + std::string(1 << 20, '9') + "]", "[\"" + std::string(1 << 20, 'a')})
    EXPECT_LT(ParseJsonBody(body).status().message().size(), 300u);
}

TEST(JsonBody, TextIsOneLineAndAlwaysUtf8) {
  EXPECT_EQ(ToText({{"a", "x\ny"}, {"b", "\xff"}}), "{\"a\":\"x\\ny\",\"b\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace holdfast::server
