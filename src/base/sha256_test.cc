#include "base/sha256.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace holdfast {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Sha256, GivesTheDigestsOfTheStandard) {
  // FIPS 180-2, appendix B, and the empty message.
  EXPECT_EQ(HexOf(Sha256Of({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf(Sha256Of(Bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf(Sha256Of(Bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexOf(Sha256Of(Bytes(std::string(1'000'000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, IsTheSameHoweverAStreamIsCut) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>(i * 7);
  const Sha256 whole = Sha256Of(Bytes(text));
  for (const size_t piece : {1, 63, 64, 511, 512, 513, 1024, 2999}) {
    Sha256Stream stream;
    for (size_t at = 0; at < text.size(); at += piece)
      stream.Add(Bytes(std::string_view(text).substr(at, piece)));
    EXPECT_EQ(stream.Finish(), whole) << "pieces of " << piece;
    EXPECT_EQ(stream.Finish(), Sha256Of({})) << "a finished stream begins anew";
    stream.Add(Bytes(text));
    EXPECT_EQ(stream.Finish(), whole);
  }
}

TEST(Sha256, StreamsThatAreOpenTogetherDoNotMeet) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, -1);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&wrong, t] {
      wrong[t] = 0;
      for (int round = 0; round < 50; ++round) {
        std::vector<std::unique_ptr<Sha256Stream>> open;
        for (size_t i = 0; i < 7; ++i) open.push_back(std::make_unique<Sha256Stream>());
        for (int part = 0; part < 3; ++part) {
          for (size_t i = 0; i < open.size(); ++i) open[i]->Add(Bytes(std::string(i * 300, 'x')));
        }
        for (size_t i = 0; i < open.size(); ++i)
          wrong[t] += open[i]->Finish() != Sha256Of(Bytes(std::string(3 * i * 300, 'x')));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Sha256, FieldsHaveTheBytesThatTheFormatSays) {
  std::string bytes;
  const auto field = [&bytes](char type, const std::string& name, const std::string& payload) {
    bytes += type;
    bytes += static_cast<char>(name.size());
    bytes += name;
    for (size_t i = 0; i < 8; ++i) bytes += static_cast<char>(payload.size() >> (8 * i));
    bytes += payload;
  };
  field('s', "format", "test");
  field('u', "version", std::string("\x03\0\0\0\0\0\0\0", 8));
  field('u', "n", std::string("\x02\x01\0\0\0\0\0\x80", 8));
  field('f', "x", std::string("\0\0\x80\x3f", 4));
  field('s', "text", "abc");
  field('b', "bytes", std::string("\0\xff", 2));
  field('t', "tokens", std::string("\x01\0\0\0\xff\xff\xff\xff", 8));
  const std::byte two[] = {std::byte{0}, std::byte{255}};
  const int32_t tokens[] = {1, -1};
  EXPECT_EQ(HexOf(Sha256Builder("test", 3)
                      .AddU64("n", 0x8000000000000102)
                      .AddF32("x", 1.0f)
                      .AddString("text", "abc")
                      .AddBytes("bytes", two)
                      .AddTokens("tokens", tokens)
                      .Finish()),
            HexOf(Sha256Of(Bytes(bytes))));
}

TEST(Sha256, FieldsThatJoinToTheSameBytesDiffer) {
  const auto two = [](std::string_view a, std::string_view b) {
    return Sha256Builder("test", 1).AddString("a", a).AddString("b", b).Finish();
  };
  EXPECT_NE(two("ab", "c"), two("a", "bc"));
  EXPECT_NE(two("", "abc"), two("abc", ""));
  const auto one = [] { return Sha256Builder("test", 1); };
  EXPECT_NE(one().AddString("a", "x").Finish(), one().AddBytes("a", Bytes("x")).Finish()) << "types";
  EXPECT_NE(one().AddString("a", "x").Finish(), one().AddString("b", "x").Finish()) << "names";
  EXPECT_NE(Sha256Builder("test", 1).Finish(), Sha256Builder("test", 2).Finish()) << "versions";
  EXPECT_NE(one().AddF32("a", 0.0f).Finish(), one().AddF32("a", -0.0f).Finish()) << "bits, not values";
}

}  // namespace
}  // namespace holdfast
