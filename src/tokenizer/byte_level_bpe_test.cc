#include <gtest/gtest.h>

#include <random>

#include "tokenizer/toy_vocabulary.h"
#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> Toy(TokenizerSpec spec = ToyByteLevelSpec()) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return *std::move(tokenizer);
}

int32_t Byte(char c) {
  return kToyByte0 + static_cast<unsigned char>(c);
}

TEST(ByteLevelBpe, JoinsByRankNotByLength) {
  const auto tokenizer = Toy();
  EXPECT_EQ(tokenizer->Encode("hello", {}).value(), Ids{tokenizer->Find("hello")});
  EXPECT_EQ(tokenizer->Encode(" the", {}).value(), Ids{tokenizer->Find("Ġthe")});
  EXPECT_EQ(tokenizer->Encode("the", {}).value(), (Ids{Byte('t'), tokenizer->Find("he")}));
  EXPECT_EQ(tokenizer->Encode("lll", {}).value(), (Ids{tokenizer->Find("ll"), Byte('l')}));
}

TEST(ByteLevelBpe, AppliesTheModelsOwnRuleForBosAndEos) {
  TokenizerSpec spec = ToyByteLevelSpec();
  spec.add_bos = spec.add_eos = true;
  const auto tokenizer = Toy(std::move(spec));
  EXPECT_EQ(tokenizer->Encode("in", {}).value(), (Ids{1, tokenizer->Find("in"), 2}));
  EXPECT_EQ(tokenizer->Encode("", {}).value(), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->Encode("in", {.add_special = false}).value(), Ids{tokenizer->Find("in")});
}

TEST(ByteLevelBpe, ReadsControlTokensOnlyOnRequestAndUserDefinedOnesAlways) {
  const auto tokenizer = Toy();
  EXPECT_EQ(tokenizer->Encode("<|im_start|>in[mark]", {.parse_special = true}).value(),
            (Ids{1, tokenizer->Find("in"), 3}));
  const Ids plain = tokenizer->Encode("<|im_start|>[mark]", {}).value();
  EXPECT_EQ(plain.back(), 3);
  EXPECT_EQ(*tokenizer->Decode(plain, false), "<|im_start|>[mark]");
}

TEST(ByteLevelBpe, HidesControlTokensUnlessAsked) {
  const auto tokenizer = Toy();
  EXPECT_EQ(*tokenizer->Decode(Ids{1, Byte('a'), 3, 2}, false), "a[mark]");
  EXPECT_EQ(*tokenizer->Decode(Ids{1, Byte('a'), 3, 2}, true), "<|im_start|>a[mark]<|im_end|>");
}

TEST(ByteLevelBpe, EveryUtf8TextSurvives) {
  for (const char* pre : {"gpt-2", "smollm"}) {
    const auto tokenizer = Toy(ToyByteLevelSpec(pre));
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (size_t i = random() % 40; i-- > 0;) {
        const auto c = static_cast<int32_t>(random() % (1u << (3 + random() % 18)));
        if (c <= 0x10ffff && (c < 0xd800 || c > 0xdfff)) AppendUtf8(c, &text);
      }
      EXPECT_EQ(*tokenizer->Decode(tokenizer->Encode(text, {}).value(), false), text);
    }
  }
}

TEST(ByteLevelBpe, InvalidUtf8BecomesReplacementCharactersAsInLlamaCpp) {
  const auto tokenizer = Toy();
  EXPECT_EQ(*tokenizer->Decode(tokenizer->Encode("a\xff\xf0\x9f z", {}).value(), false),
            "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd z");
}

TEST(ByteLevelBpe, LeavesOutABytesThatHasNoPiece) {
  TokenizerSpec spec = ToyByteLevelSpec();
  spec.pieces[static_cast<size_t>(Byte('\x04'))] = "unused";
  const auto tokenizer = Toy(std::move(spec));
  EXPECT_EQ(*tokenizer->Decode(tokenizer
                                   ->Encode("a\x04"
                                            "b",
                                            {})
                                   .value(),
                               false),
            "ab");
}

// Quadratic work would be hours.
TEST(ByteLevelBpe, AMegabyteOfOneWordIsNotQuadratic) {
  const auto tokenizer = Toy();
  EXPECT_EQ(tokenizer->Encode(std::string(1 << 20, 'l'), {}).value().size(), size_t{1} << 19);
}

}  // namespace
}  // namespace holdfast
