#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace holdfast {
namespace {

constexpr size_t kMaxPieces = size_t{1} << 24;
constexpr size_t kMaxPieceBytes = 4096;  // the longest of real vocabularies are near 200

std::string PieceName(size_t id) {
  return "tokenizer: piece " + std::to_string(id);
}

Status CheckSizes(const TokenizerSpec& spec) {
  const size_t n = spec.pieces.size();
  if (n == 0 || n > kMaxPieces) {
    return DataLoss("tokenizer: " + std::to_string(n) + " pieces, must be 1 to " +
                    std::to_string(kMaxPieces));
  }
  if (spec.types.size() != n) {
    return DataLoss("tokenizer: " + std::to_string(spec.types.size()) + " token types for " +
                    std::to_string(n) + " pieces");
  }
  if (spec.kind == TokenizerSpec::Kind::kSentencePieceBpe && spec.scores.size() != n) {
    return DataLoss("tokenizer: " + std::to_string(spec.scores.size()) + " scores for " + std::to_string(n) +
                    " pieces");
  }
  return OkStatus();
}

Status CheckPieces(const TokenizerSpec& spec) {
  for (size_t id = 0; id < spec.pieces.size(); ++id) {
    const std::string& piece = spec.pieces[id];
    if (piece.empty()) return DataLoss(PieceName(id) + " is empty");
    if (piece.size() > kMaxPieceBytes) {
      return DataLoss(PieceName(id) + " has " + std::to_string(piece.size()) + " bytes, the limit is " +
                      std::to_string(kMaxPieceBytes));
    }
    if (!IsUtf8(piece)) return DataLoss(PieceName(id) + " is not UTF-8");
    const auto type = static_cast<int32_t>(spec.types[id]);
    if (type < 0 || type > static_cast<int32_t>(TokenType::kByte)) {
      return DataLoss(PieceName(id) + " has token type " + std::to_string(type) + ", must be 0 to 6");
    }
    if (spec.types[id] == TokenType::kByte && ByteOfPiece(piece) < 0) {
      return DataLoss(PieceName(id) + " is of type byte and not written <0xNN>");
    }
  }
  for (size_t id = 0; id < spec.scores.size(); ++id) {
    if (!std::isfinite(spec.scores[id])) return DataLoss(PieceName(id) + " has a score that is not finite");
  }
  return OkStatus();
}

Status CheckIds(const TokenizerSpec& spec) {
  const auto n = static_cast<int32_t>(spec.pieces.size());
  const std::pair<const char*, int32_t> ids[] = {
      {"BOS", spec.bos}, {"EOS", spec.eos}, {"unknown", spec.unk}, {"EOT", spec.eot}};
  for (const auto& [name, id] : ids) {
    if (id < -1 || id >= n) {
      return DataLoss(std::string("tokenizer: the ") + name + " token is " + std::to_string(id) +
                      ", the vocabulary has " + std::to_string(n));
    }
  }
  if (spec.add_bos && spec.bos < 0)
    return InvalidArgument("tokenizer: BOS is to be added, and there is no BOS token");
  if (spec.add_eos && spec.eos < 0)
    return InvalidArgument("tokenizer: EOS is to be added, and there is no EOS token");
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  HF_RETURN_IF_ERROR(CheckSizes(spec));
  HF_RETURN_IF_ERROR(CheckPieces(spec));
  HF_RETURN_IF_ERROR(CheckIds(spec));
  std::vector<int32_t> end_tokens = FindEndTokens(&spec);
  return spec.kind == TokenizerSpec::Kind::kByteLevelBpe
             ? CreateByteLevelBpe(std::move(spec), std::move(end_tokens))
             : CreateSentencePieceBpe(std::move(spec), std::move(end_tokens));
}

Tokenizer::Tokenizer(TokenizerSpec spec, std::vector<int32_t> end_tokens)
    : spec_(std::move(spec)), end_tokens_(std::move(end_tokens)) {}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(spec_.pieces.size());
}
int32_t Tokenizer::bos() const {
  return spec_.bos;
}
int32_t Tokenizer::eos() const {
  return spec_.eos;
}
bool Tokenizer::adds_bos() const {
  return spec_.add_bos;
}

bool Tokenizer::is_end(int32_t id) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id);
}

bool Tokenizer::is_control(int32_t id) const {
  const TokenType type = spec_.types[static_cast<size_t>(id)];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids, bool show_special) const {
  bool drop_space = spec_.kind == TokenizerSpec::Kind::kSentencePieceBpe && spec_.add_space_prefix;
  std::string text;
  for (const int32_t id : ids) {
    HF_ASSIGN_OR_RETURN(const std::string piece, Piece(id, show_special));
    const bool skip = drop_space && !is_control(id) && piece.starts_with(' ');
    text.append(piece, skip ? 1 : 0);
    drop_space = drop_space && is_control(id);
  }
  return text;
}

}  // namespace holdfast
