#include "models/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "models/test_files.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::GgufWriter;

GgufWriter ByteLevel() {
  GgufWriter file;
  file.String("tokenizer.ggml.model", "gpt2").String("tokenizer.ggml.pre", "smollm");
  file.Strings("tokenizer.ggml.tokens", {"<e>", "a", "b", "ab"}).Strings("tokenizer.ggml.merges", {"a b"});
  file.Numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {3, 1, 1, 1});
  return file;
}

GgufWriter SentencePiece() {
  GgufWriter file;
  file.String("tokenizer.ggml.model", "llama")
      .Strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
  file.Numbers<float>("tokenizer.ggml.scores", GgufType::kFloat32, {0, 0, 0, -1.5f});
  file.Numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {2, 3, 3, 1});
  return file;
}

Result<TokenizerSpec> Read(const GgufWriter& writer) {
  const std::string bytes = writer.Build();
  const auto file = GgufFile::Parse(BytesOf(bytes), "toy.gguf");
  if (!file.ok()) return file.status();
  return ReadTokenizerSpec(**file);
}

TEST(GgufTokenizer, ReadsAByteLevelVocabulary) {
  const auto spec = Read(ByteLevel().Uint32("tokenizer.ggml.eos_token_id", 0));
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->kind, TokenizerSpec::Kind::kByteLevelBpe);
  EXPECT_EQ(spec->pre, "smollm");
  EXPECT_EQ(spec->pieces[3], "ab");
  EXPECT_EQ(spec->merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(spec->types[0], TokenType::kControl);
  EXPECT_EQ(spec->eos, 0);
  EXPECT_EQ(spec->bos, -1);
  EXPECT_FALSE(spec->add_bos);
  EXPECT_FALSE(spec->add_space_prefix);
}

TEST(GgufTokenizer, SentencePieceTakesItsUsualDefaults) {
  const auto spec = Read(SentencePiece());
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->kind, TokenizerSpec::Kind::kSentencePieceBpe);
  EXPECT_EQ(spec->scores[3], -1.5f);
  EXPECT_EQ(spec->bos, 1);
  EXPECT_EQ(spec->eos, 2);
  EXPECT_EQ(spec->unk, 0);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_TRUE(spec->add_space_prefix);
}

TEST(GgufTokenizer, TheChatTemplateIsText) {
  const std::string bytes = GgufWriter().String("tokenizer.chat_template", "{{ x }}").Build();
  const auto file = GgufFile::Parse(BytesOf(bytes), "toy.gguf");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*ReadChatTemplate(**file), "{{ x }}");
  const std::string none = GgufWriter().Build();
  EXPECT_EQ(*ReadChatTemplate(**GgufFile::Parse(BytesOf(none), "toy.gguf")), "");
}

void ExpectRefused(const GgufWriter& writer, StatusCode code, const std::vector<std::string>& said) {
  const auto spec = Read(writer);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.status().code(), code) << spec.status().message();
  for (const std::string& part : said) {
    EXPECT_NE(spec.status().message().find(part), std::string::npos)
        << "wanted: " << part << "\nfound: " << spec.status().message();
  }
}

TEST(GgufTokenizer, WhatItCannotDoIsRefusedByName) {
  ExpectRefused(GgufWriter(), StatusCode::kNotFound, {"tokenizer.ggml.model"});
  ExpectRefused(GgufWriter().String("tokenizer.ggml.model", "t5"), StatusCode::kUnimplemented,
                {"\"t5\"", "gpt2 and llama"});
  ExpectRefused(SentencePiece().Bool("tokenizer.ggml.remove_extra_whitespaces", true),
                StatusCode::kUnimplemented, {"remove_extra_whitespaces"});
  ExpectRefused(SentencePiece().Bool("tokenizer.ggml.escape_whitespaces", false), StatusCode::kUnimplemented,
                {"escape_whitespaces"});
  ExpectRefused(
      SentencePiece().Numbers<uint8_t>("tokenizer.ggml.precompiled_charsmap", GgufType::kUint8, {1}),
      StatusCode::kUnimplemented, {"precompiled_charsmap"});
}

TEST(GgufTokenizer, IdsOutsideTheVocabularyAreRefused) {
  ExpectRefused(ByteLevel().Uint32("tokenizer.ggml.bos_token_id", 4), StatusCode::kOutOfRange,
                {"bos_token_id", "is 4", "4 tokens"});
  ExpectRefused(ByteLevel().Uint32("tokenizer.ggml.eot_token_id", 99), StatusCode::kOutOfRange,
                {"eot_token_id", "is 99"});
  ExpectRefused(ByteLevel().Bool("tokenizer.ggml.add_bos_token", true), StatusCode::kInvalidArgument,
                {"add_bos_token"});
}

TEST(GgufTokenizer, ArraysOfDifferentLengthsAreRefused) {
  GgufWriter types;
  types.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", {"a", "b"});
  types.Strings("tokenizer.ggml.merges", {})
      .Numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {1});
  ExpectRefused(types, StatusCode::kDataLoss, {"token_type", "1 values", "2 tokens"});
  GgufWriter scores;
  scores.String("tokenizer.ggml.model", "llama").Strings("tokenizer.ggml.tokens", {"a", "b"});
  scores.Numbers<float>("tokenizer.ggml.scores", GgufType::kFloat32, {1, 2, 3});
  ExpectRefused(scores, StatusCode::kDataLoss, {"scores", "3 values", "2 tokens"});
  GgufWriter kind;
  kind.String("tokenizer.ggml.model", "llama").Strings("tokenizer.ggml.tokens", {"a"});
  kind.Numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {7});
  ExpectRefused(kind, StatusCode::kOutOfRange, {"type of token 0 is 7", "0 and 6"});
  GgufWriter empty;
  empty.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", {});
  ExpectRefused(empty, StatusCode::kOutOfRange, {"0 tokens"});
}

}  // namespace
}  // namespace holdfast
