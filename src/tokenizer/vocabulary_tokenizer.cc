#include "tokenizer/vocabulary_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace holdfast {
namespace {

// Positions within a word are 32-bit; longer text is cut here, which no model's context would notice.
constexpr size_t kMaxTextBytes = size_t{1} << 29;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

int ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const int high = HexDigit(piece[3]), low = HexDigit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

VocabularyTokenizer::VocabularyTokenizer(TokenizerSpec spec, std::vector<int32_t> end_tokens)
    : Tokenizer(std::move(spec), std::move(end_tokens)) {
  std::vector<SpecialToken> tokens;
  for (size_t id = 0; id < spec_.pieces.size(); ++id) {
    const bool control = is_control(static_cast<int32_t>(id));
    if (!control && spec_.types[id] != TokenType::kUserDefined) continue;
    tokens.push_back({spec_.pieces[id], static_cast<int32_t>(id), control});
  }
  special_ = SpecialTokens(tokens);
}

Status VocabularyTokenizer::BuildTable() {
  Result<PieceTable> table = PieceTable::Build(spec_.pieces);
  if (!table.ok()) return table.status();
  table_ = std::move(table).value();
  return OkStatus();
}

Result<std::vector<int32_t>> VocabularyTokenizer::Encode(std::string_view text,
                                                         const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 2);
  if (options.add_special && spec_.add_bos) ids.push_back(spec_.bos);
  bool after_token = true;
  for (const TextFragment& fragment : special_.Split(text, options.parse_special)) {
    if (fragment.token >= 0) {
      ids.push_back(fragment.token);
      after_token = true;
      continue;
    }
    for (size_t done = 0; done < fragment.size; done += kMaxTextBytes) {
      const auto part = text.substr(fragment.begin + done, std::min(kMaxTextBytes, fragment.size - done));
      HF_RETURN_IF_ERROR(EncodeText(part, after_token, &ids));
      after_token = false;
    }
  }
  if (options.add_special && spec_.add_eos) ids.push_back(spec_.eos);
  return ids;
}

Result<std::string> VocabularyTokenizer::Piece(int32_t id, bool show_special) const {
  if (id < 0 || id >= vocab_size()) {
    return OutOfRange("token piece: id " + std::to_string(id) + ", the vocabulary has " +
                      std::to_string(vocab_size()));
  }
  const std::string& piece = spec_.pieces[static_cast<size_t>(id)];
  if (is_control(id)) return show_special ? piece : std::string();
  switch (spec_.types[static_cast<size_t>(id)]) {
    case TokenType::kUserDefined:
      return piece;
    case TokenType::kByte:
      return std::string(1, static_cast<char>(ByteOfPiece(piece)));
    default:
      return OrdinaryPiece(piece);
  }
}

}  // namespace holdfast
