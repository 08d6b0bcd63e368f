// Fuzzes the tokenizers: the input's head damages a toy vocabulary, the rest is text that is encoded, decoded
// and streamed.
//
// Byte 0: bit 0 kind, bit 1 pre-tokeniser or space prefix, bit 2 parse_special, bit 3 BOS/EOS, bits 4-7 how
// many 3-byte edits follow. An edit is (where, what, value); one that breaks the vocabulary must be refused
// by Create, not later.
#include "tokenizer/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tokenizer/toy_vocabulary.h"
#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void Edit(TokenizerSpec* spec, uint8_t where, uint8_t what, uint8_t value) {
  // The last pieces are the interesting ones: the first are special tokens and bytes.
  const size_t id = what & 0x80 ? where % spec->pieces.size() : spec->pieces.size() - 1 - where % 12;
  switch (what % 8) {
    case 0:
      spec->pieces[id] += static_cast<char>(value);
      break;
    case 1:
      spec->pieces[id].resize(value % 8, 'x');
      break;
    case 2:
      spec->types[id] = static_cast<TokenType>(value % 9);
      break;
    case 3:
      AddPiece(spec, std::string(1 + value % 3, "ab <"[where % 4]), TokenType::kUserDefined, 0.5f);
      break;
    case 4:
      if (!spec->scores.empty()) spec->scores[id] = static_cast<float>(value) - 128.0f;
      break;
    case 5:
      if (!spec->merges.empty())
        std::swap(spec->merges[where % spec->merges.size()], spec->merges[value % spec->merges.size()]);
      break;
    case 6:
      spec->merges.push_back({static_cast<char>('a' + where % 26), ' ', static_cast<char>('a' + value % 26)});
      break;
    default:
      spec->eos = static_cast<int32_t>(value) * 2 - 8;
      break;
  }
}

// What is left of the text when it has gone through the vocabulary and back.
void CheckText(const Tokenizer& tokenizer, std::string_view text, bool parse_special, bool lossless,
               bool byte_level) {
  const std::vector<int32_t> ids =
      tokenizer.Encode(text, {.add_special = false, .parse_special = parse_special}).value();
  for (const int32_t id : ids) Require(id >= 0 && id < tokenizer.vocab_size());
  const auto decoded = tokenizer.Decode(ids, true);
  Require(decoded.ok());
  if (lossless) Require(*decoded == (byte_level && !IsUtf8(text) ? RepairUtf8(text) : std::string(text)));

  StreamDecoder stream;
  std::string streamed;
  for (const int32_t id : ids) {
    const auto piece = tokenizer.Piece(id, true);
    Require(piece.ok());
    streamed += stream.Add(*piece);
    Require(IsUtf8(streamed));
  }
  streamed += stream.Finish();
  Require(IsUtf8(streamed));
  if (IsUtf8(*decoded) && lossless) Require(streamed == *decoded);
}

}  // namespace
}  // namespace holdfast

int FuzzTokenizer(const uint8_t* data, size_t size);
int FuzzTokenizer(const uint8_t* data, size_t size) {
  using namespace holdfast;
  if (size == 0) return 0;
  const uint8_t flags = data[0];
  const bool byte_level = (flags & 1) == 0, variant = (flags & 2) != 0, parse_special = (flags & 4) != 0;
  TokenizerSpec spec =
      byte_level ? ToyByteLevelSpec(variant ? "gpt-2" : "smollm") : ToySentencePieceSpec(variant);
  spec.add_bos = spec.add_eos = (flags & 8) != 0;
  size_t at = 1;
  const size_t edits = flags >> 4;
  for (size_t i = 0; i < edits && at + 3 <= size; ++i, at += 3)
    Edit(&spec, data[at], data[at + 1], data[at + 2]);
  const std::string_view text(reinterpret_cast<const char*>(data) + at, size - at);
  const auto tokenizer = Tokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) {
    Require(edits > 0 && !tokenizer.status().message().empty());
    return 0;
  }
  // An untouched vocabulary says everything, but for what SentencePiece itself cannot tell apart (spaces and
  // U+2581) or repeats (the space after a user-defined token). With byte repair, special tokens' text stays
  // as it is.
  const bool lossless =
      edits == 0 && (byte_level ? IsUtf8(text) || text.find_first_of("<[") == std::string_view::npos
                                : !variant && text.find("\xe2\x96\x81") == std::string_view::npos &&
                                      (IsUtf8(text) || text.find(' ') == std::string_view::npos));
  CheckText(**tokenizer, text, parse_special, lossless, byte_level);
  return 0;
}

#ifdef HOLDFAST_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return FuzzTokenizer(data, size);
}
#endif
