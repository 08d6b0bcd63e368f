#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tokenizer/toy_vocabulary.h"

namespace holdfast {
namespace {

struct HostileSpec {
  const char* name;
  std::function<void(TokenizerSpec*)> damage;
  StatusCode code;
  const char* message;  // a part of it
  bool sentence_piece = false;
};

void PrintTo(const HostileSpec& spec, std::ostream* os) {
  *os << spec.name;
}

class TokenizerHostile : public testing::TestWithParam<HostileSpec> {};

TEST_P(TokenizerHostile, IsRefusedByName) {
  TokenizerSpec spec = GetParam().sentence_piece ? ToySentencePieceSpec() : ToyByteLevelSpec();
  GetParam().damage(&spec);
  const auto tokenizer = Tokenizer::Create(std::move(spec));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), GetParam().code) << tokenizer.status().message();
  EXPECT_NE(tokenizer.status().message().find(GetParam().message), std::string::npos)
      << tokenizer.status().message();
}

using Spec = TokenizerSpec;
const StatusCode kLoss = StatusCode::kDataLoss;

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerHostile,
    testing::Values(
        HostileSpec{"no_pieces", [](Spec* s) { s->pieces.clear(); }, kLoss, "0 pieces"},
        HostileSpec{"few_types", [](Spec* s) { s->types.pop_back(); }, kLoss,
                    "267 token types for 268 pieces"},
        HostileSpec{"few_scores", [](Spec* s) { s->scores.pop_back(); }, kLoss, "268 scores for 269", true},
        HostileSpec{"nan_score", [](Spec* s) { s->scores[7] = std::numeric_limits<float>::quiet_NaN(); },
                    kLoss, "piece 7 ", true},
        HostileSpec{"type_9", [](Spec* s) { s->types[5] = static_cast<TokenType>(9); }, kLoss,
                    "piece 5 has token type 9"},
        HostileSpec{"empty_piece", [](Spec* s) { s->pieces[8].clear(); }, kLoss, "piece 8 is empty"},
        HostileSpec{"long_piece", [](Spec* s) { s->pieces[8].assign(5000, 'x'); }, kLoss,
                    "piece 8 has 5000 bytes"},
        HostileSpec{"not_utf8", [](Spec* s) { s->pieces[8] = "\xff"; }, kLoss, "piece 8 is not UTF-8"},
        HostileSpec{"duplicate", [](Spec* s) { s->pieces[9] = s->pieces[8]; }, kLoss,
                    "piece 9 repeats the text of piece 8"},
        HostileSpec{"unknown_left", [](Spec* s) { s->merges[1] = "zz a"; }, kLoss, "merge 1: its left side"},
        HostileSpec{"unknown_right", [](Spec* s) { s->merges[1] = "a zz"; }, kLoss,
                    "merge 1: its right side"},
        HostileSpec{"unknown_result", [](Spec* s) { s->merges[1] = "q q"; }, kLoss, "merge 1: its result"},
        HostileSpec{"no_space", [](Spec* s) { s->merges[2] = "he"; }, kLoss, "merge 2 is not two pieces"},
        HostileSpec{"empty_merge", [](Spec* s) { s->merges[2] = ""; }, kLoss, "merge 2 is not two pieces"},
        HostileSpec{"one_sided_merge", [](Spec* s) { s->merges[2] = "h "; }, kLoss,
                    "merge 2 is not two pieces"},
        HostileSpec{"byte_name", [](Spec* s) { s->pieces[10] = "<0xGG>"; }, kLoss, "piece 10 is of type byte",
                    true},
        HostileSpec{"byte_missing", [](Spec* s) { s->types[13] = TokenType::kNormal; }, kLoss, "byte 10,",
                    true},
        HostileSpec{"eos_outside", [](Spec* s) { s->eos = 268; }, kLoss,
                    "the EOS token is 268, the vocabulary has 268"},
        HostileSpec{"bos_negative", [](Spec* s) { s->bos = -7; }, kLoss, "the BOS token is -7"},
        HostileSpec{"bos_rule", [](Spec* s) { s->add_bos = true, s->bos = -1; }, StatusCode::kInvalidArgument,
                    "no BOS"},
        HostileSpec{"eos_rule", [](Spec* s) { s->add_eos = true, s->eos = -1; }, StatusCode::kInvalidArgument,
                    "no EOS"},
        HostileSpec{"pre", [](Spec* s) { s->pre = "martian"; }, StatusCode::kUnimplemented,
                    "'martian' is not known; there are gpt-2, smollm"}),
    [](const auto& spec) { return std::string(spec.param.name); });

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = Tokenizer::Create(ToyByteLevelSpec());
  ASSERT_TRUE(tokenizer.ok());
  for (const int32_t id : {-1, 268, std::numeric_limits<int32_t>::max()}) {
    EXPECT_EQ((*tokenizer)->Piece(id, true).status().code(), StatusCode::kOutOfRange);
    EXPECT_EQ((*tokenizer)->Decode(std::vector<int32_t>{4, id}, true).status().code(),
              StatusCode::kOutOfRange);
    EXPECT_FALSE((*tokenizer)->is_end(id));
  }
}

TEST(Tokenizer, EndsAtItsEosAndAtEveryEndOfTurnByName) {
  TokenizerSpec spec = ToyByteLevelSpec();
  spec.eos = 5;
  const auto tokenizer = Tokenizer::Create(std::move(spec));
  ASSERT_TRUE(tokenizer.ok());
  std::vector<int32_t> ends;
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    if ((*tokenizer)->is_end(id)) ends.push_back(id);
  }
  EXPECT_EQ(ends, (std::vector<int32_t>{0, 2, 5}));
}

TEST(Tokenizer, TreatsAnEndTokenAsControlWhateverTheFileCallsIt) {
  TokenizerSpec spec = ToyByteLevelSpec();
  spec.types[2] = TokenType::kUserDefined;
  const auto tokenizer = Tokenizer::Create(std::move(spec));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_GT((*tokenizer)->Encode("<|im_end|>", {}).value().size(), 1u);
  EXPECT_EQ((*tokenizer)->Encode("<|im_end|>", {.parse_special = true}).value(), std::vector<int32_t>{2});
  EXPECT_EQ(*(*tokenizer)->Piece(2, false), "");
}

TEST(Tokenizer, KeepsHarmonysEndOfMessageOutOfTheEndTokens) {
  TokenizerSpec spec = ToyByteLevelSpec();
  for (const char* text : {"<|end|>", "<|return|>", "<|call|>"}) AddPiece(&spec, text, TokenType::kControl);
  const auto tokenizer = Tokenizer::Create(std::move(spec));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_FALSE((*tokenizer)->is_end((*tokenizer)->Find("<|end|>")));
  EXPECT_TRUE((*tokenizer)->is_end((*tokenizer)->Find("<|return|>")));
}

}  // namespace
}  // namespace holdfast
