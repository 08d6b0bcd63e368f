// The two real models' tokenizers against llama.cpp's ids for 178 nasty strings, committed in
// tests/expectations.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "models/gguf.h"
#include "models/gguf_tokenizer.h"
#include "real_models.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

std::string FromBase64(const std::string& text) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = alphabet.find(c);
    if (value == std::string::npos) break;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xff));
    }
  }
  return out;
}

class TokenizerReal : public RealModelTest {
 protected:
  void SetUp() override {
    RealModelTest::SetUp();
    if (IsSkipped()) return;
    auto file = GgufFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto spec = ReadTokenizerSpec(**file);
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    auto tokenizer = Tokenizer::Create(*std::move(spec));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    tokenizer_ = *std::move(tokenizer);
    std::ifstream in(std::string(HOLDFAST_SOURCE_DIR) + "/tests/expectations/tokenizer_" + GetParam().name +
                     ".json");
    expected_ = nlohmann::json::parse(in);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  nlohmann::json expected_;
};

TEST_P(TokenizerReal, IdsAreThoseOfLlamaCpp) {
  ASSERT_GE(expected_["cases"].size(), 150u);
  for (const auto& c : expected_["cases"]) {
    const std::string text = FromBase64(c["text"]);
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    const auto special = c.contains("special_ids") ? c["special_ids"].get<std::vector<int32_t>>() : ids;
    EXPECT_EQ(tokenizer_->Encode(text, {.add_special = false, .parse_special = false}).value(), ids)
        << testing::PrintToString(text);
    EXPECT_EQ(tokenizer_->Encode(text, {.add_special = false, .parse_special = true}).value(), special)
        << testing::PrintToString(text);
  }
}

TEST_P(TokenizerReal, IdsDecodeToTheBytesOfLlamaCpp) {
  for (const auto& c : expected_["cases"]) {
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    const std::string bytes = FromBase64(c.contains("bytes") ? c["bytes"] : c["text"]);
    const auto text = tokenizer_->Decode(ids, false);
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(*text, bytes);
  }
}

TEST_P(TokenizerReal, BosRuleAndEndTokensAreThoseOfLlamaCpp) {
  EXPECT_EQ(tokenizer_->Encode("", {}).value(), expected_["special"].get<std::vector<int32_t>>());
  std::vector<int32_t> ends;
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (tokenizer_->is_end(id)) ends.push_back(id);
  }
  EXPECT_EQ(ends, expected_["end_tokens"].get<std::vector<int32_t>>());
}

TEST_P(TokenizerReal, EveryPieceSurvivesBeingReadAgain) {
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const auto piece = tokenizer_->Piece(id, true);
    ASSERT_TRUE(piece.ok());
    EXPECT_FALSE(piece->empty()) << id;
    if (!IsUtf8(*piece)) continue;  // part of a character
    const auto ids = tokenizer_->Encode(*piece, {.add_special = false, .parse_special = true}).value();
    EXPECT_EQ(*tokenizer_->Decode(ids, true), *piece) << id;
  }
}

TEST_P(TokenizerReal, ControlTokensAreNotReadFromPlainText) {
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (!tokenizer_->Piece(id, false)->empty()) continue;
    const auto ids = tokenizer_->Encode(*tokenizer_->Piece(id, true), {.add_special = false}).value();
    for (const int32_t read : ids) {
      EXPECT_FALSE(tokenizer_->Piece(read, false)->empty()) << id;
    }
  }
}

// A tokenizer that is quadratic in a word's length would take hours here and meet the suite's time-out.
TEST_P(TokenizerReal, TakesAMegabyteOfAnything) {
  std::mt19937 random(7);
  std::string bytes(1 << 20, 0), prose;
  for (char& c : bytes) c = static_cast<char>(random() & 0xff);
  while (prose.size() < (1 << 20)) prose += "The rain in Spain stays mainly in the plain, 1850 times. ";
  for (const std::string& text : {std::string(1 << 20, 'a'), std::string(1 << 20, ' '),
                                  std::string(1 << 20, '\n'), std::string(1 << 20, '7'), prose}) {
    EXPECT_EQ(*tokenizer_->Decode(tokenizer_->Encode(text, {.add_special = false}).value(), false), text);
  }
  EXPECT_GT(tokenizer_->Encode(bytes, {}).value().size(), size_t{1} << 18);
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerReal, testing::ValuesIn(kRealModels), RealModelName);

}  // namespace
}  // namespace holdfast
