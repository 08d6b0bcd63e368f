// Text to token ids and back. Built from plain data (TokenizerSpec), so that this layer knows no file format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// GGUF's token types; the numbers are the file's.
enum class TokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct TokenizerSpec {
  enum class Kind : uint8_t { kByteLevelBpe, kSentencePieceBpe } kind = Kind::kByteLevelBpe;
  std::string pre;                  // name of the pre-tokeniser ("smollm", "gpt-2"), byte-level only
  std::vector<std::string> pieces;  // by id, as the file writes them
  std::vector<float> scores;        // by id; SentencePiece only
  std::vector<TokenType> types;     // by id
  std::vector<std::string> merges;  // "left right", by rank; byte-level only
  int32_t bos = -1, eos = -1, unk = -1, eot = -1;
  bool add_bos = false, add_eos = false, add_space_prefix = false;
};

struct EncodeOptions {
  bool add_special = true;     // the model's own BOS/EOS rule
  bool parse_special = false;  // read control tokens' text as those tokens
};

// Immutable and thread-safe once created.
class Tokenizer {
 public:
  // Errors: kUnimplemented (a pre-tokeniser that is not in the table, by name), kInvalidArgument (a BOS or
  // EOS rule without that token), kDataLoss (sizes that do not agree; empty, duplicate, overlong or malformed
  // pieces; merges of pieces that do not exist; byte pieces missing; ids out of range: names the id or the
  // merge's rank).
  static Result<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);
  virtual ~Tokenizer() = default;

  // Any bytes are accepted and the ids are llama.cpp's, so what the vocabulary cannot say follows it too:
  // SentencePiece vocabularies keep every byte (but a space inside a broken character becomes U+2581);
  // byte-level ones read a byte that begins no character as U+FFFD and leave out a byte that has no piece
  // (SmolLM2 has none for six control characters). Time is O(n log n) whatever the text. Error
  // kResourceExhausted: no memory to cut the text into words.
  virtual Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options) const = 0;
  // The bytes that token `id` adds to the text; empty for control tokens unless show_special. May end or
  // begin inside a UTF-8 character: see StreamDecoder. Error kOutOfRange for an id outside the vocabulary.
  virtual Result<std::string> Piece(int32_t id, bool show_special) const = 0;
  // The pieces joined. Where the model puts a space before the text (add_space_prefix), the one that the
  // first token after any control tokens begins with is left out again. Error kOutOfRange: see Piece.
  Result<std::string> Decode(std::span<const int32_t> ids, bool show_special) const;

  int32_t vocab_size() const;
  int32_t bos() const;  // -1 where the model has none
  int32_t eos() const;
  bool adds_bos() const;
  bool is_end(int32_t id) const;  // any end-of-generation token: EOS, end of turn
  // The token whose piece is exactly `text`, control tokens included; -1 if none.
  virtual int32_t Find(std::string_view text) const = 0;

 protected:
  explicit Tokenizer(TokenizerSpec spec, std::vector<int32_t> end_tokens);
  bool is_control(int32_t id) const;  // REQUIRES: id in the vocabulary

  TokenizerSpec spec_;               // end tokens are marked kControl here whatever the file says
  std::vector<int32_t> end_tokens_;  // ascending
};

// Joins pieces into text that never ends inside a UTF-8 character. Bytes that can never become valid UTF-8
// are passed on as U+FFFD as soon as that is known.
class StreamDecoder {
 public:
  // Text that has become complete with this piece.
  std::string Add(std::string_view piece);
  // What is left, incomplete characters as U+FFFD.
  std::string Finish();

 private:
  std::string pending_;
};

}  // namespace holdfast
