// Small vocabularies for the tests and the fuzz target.
#pragma once

#include <string>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace holdfast {

inline void AddPiece(TokenizerSpec* spec, const std::string& piece, TokenType type = TokenType::kNormal,
                     float score = 0.0f) {
  spec->pieces.push_back(piece);
  spec->types.push_back(type);
  if (spec->kind == TokenizerSpec::Kind::kSentencePieceBpe) spec->scores.push_back(score);
}

// Ids: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|> (EOS), 3 user-defined "[mark]", 4 to 259 the bytes in
// order, then the merges' results: "Ġt" "Ġa" "he" "in" "Ġthe" "ll" "hell" "hello".
inline TokenizerSpec ToyByteLevelSpec(const std::string& pre = "smollm") {
  TokenizerSpec spec;
  spec.kind = TokenizerSpec::Kind::kByteLevelBpe;
  spec.pre = pre;
  spec.eos = 2;
  spec.bos = 1;
  for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
    AddPiece(&spec, text, TokenType::kControl);
  AddPiece(&spec, "[mark]", TokenType::kUserDefined);
  for (const std::string& character : ByteAlphabet()) AddPiece(&spec, character);
  for (const char* merge : {"Ġ t", "Ġ a", "h e", "i n", "Ġt he", "l l", "he ll", "hell o"}) {
    spec.merges.push_back(merge);
    std::string joined = merge;
    joined.erase(joined.find(' ', 1), 1);
    AddPiece(&spec, joined);
  }
  return spec;
}
inline constexpr int32_t kToyByte0 = 4, kToyMerged0 = 260;

// Ids: 0 <unk>, 1 <s> (BOS), 2 </s> (EOS), 3 to 258 the byte tokens, 259 user-defined "\n\n", 260
// user-defined "\n\n\n", then pieces with falling scores: "▁" "a" "b" "ab" "▁ab" "aa" "é" "▁▁".
inline TokenizerSpec ToySentencePieceSpec(bool add_space_prefix = false) {
  TokenizerSpec spec;
  spec.kind = TokenizerSpec::Kind::kSentencePieceBpe;
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.add_bos = true;
  spec.add_space_prefix = add_space_prefix;
  AddPiece(&spec, "<unk>", TokenType::kUnknown);
  AddPiece(&spec, "<s>", TokenType::kControl);
  AddPiece(&spec, "</s>", TokenType::kControl);
  const char* hex = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    AddPiece(&spec, std::string("<0x") + hex[byte / 16] + hex[byte % 16] + ">", TokenType::kByte);
  }
  AddPiece(&spec, "\n\n", TokenType::kUserDefined);
  AddPiece(&spec, "\n\n\n", TokenType::kUserDefined);
  float score = 0.0f;
  for (const char* piece : {"▁", "a", "b", "ab", "▁ab", "aa", "é", "▁▁"}) {
    AddPiece(&spec, piece, TokenType::kNormal, score);
    score -= 1.0f;
  }
  return spec;
}
inline constexpr int32_t kToySpaceByte0 = 3, kToyPiece0 = 261;

}  // namespace holdfast
