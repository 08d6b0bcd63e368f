// What both kinds of tokenizer share: finding special tokens, the BOS/EOS rule, pieces by text and by id.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/piece_table.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"

namespace holdfast {

class VocabularyTokenizer : public Tokenizer {
 public:
  Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options) const final;
  Result<std::string> Piece(int32_t id, bool show_special) const final;
  int32_t Find(std::string_view text) const final { return table_.Find(text); }

 protected:
  VocabularyTokenizer(TokenizerSpec spec, std::vector<int32_t> end_tokens);
  // Error kDataLoss: a piece twice.
  Status BuildTable();

  // Appends the ids of text that holds no special token. after_token: it begins the whole or follows a
  // special token. REQUIRES: text is not empty and at most 512 MiB. Errors: those of Encode.
  virtual Status EncodeText(std::string_view text, bool after_token, std::vector<int32_t>* ids) const = 0;
  // The bytes that an ordinary piece stands for.
  virtual std::string OrdinaryPiece(std::string_view piece) const = 0;

  PieceTable table_;

 private:
  SpecialTokens special_;
};

// The two kinds. `spec` has passed Tokenizer::Create's checks. Errors: those of Create that concern one kind
// only.
Result<std::unique_ptr<Tokenizer>> CreateByteLevelBpe(TokenizerSpec spec, std::vector<int32_t> end_tokens);
Result<std::unique_ptr<Tokenizer>> CreateSentencePieceBpe(TokenizerSpec spec,
                                                          std::vector<int32_t> end_tokens);

// The byte of a piece written <0xNN>, -1 for any other text.
int ByteOfPiece(std::string_view piece);

}  // namespace holdfast
