// SentencePiece's BPE: spaces become U+2581 and characters are joined by score; what is no piece becomes byte
// tokens.
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "tokenizer/merge.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace holdfast {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581

class SentencePieceBpe final : public VocabularyTokenizer {
 public:
  SentencePieceBpe(TokenizerSpec spec, std::vector<int32_t> end_tokens)
      : VocabularyTokenizer(std::move(spec), std::move(end_tokens)) {}

  Status Build() {
    HF_RETURN_IF_ERROR(BuildTable());
    byte_ids_.fill(-1);
    for (size_t id = 0; id < spec_.pieces.size(); ++id) {
      if (spec_.types[id] != TokenType::kByte) continue;
      byte_ids_[static_cast<size_t>(ByteOfPiece(spec_.pieces[id]))] = static_cast<int32_t>(id);
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte_ids_[byte] < 0) {
        return DataLoss("tokenizer: no piece of type byte for byte " + std::to_string(byte) +
                        ", all 256 are needed");
      }
    }
    return OkStatus();
  }

 protected:
  Status EncodeText(std::string_view text, bool after_token, std::vector<int32_t>* ids) const override {
    const std::string escaped = Escape(text, spec_.add_space_prefix && after_token);
    std::vector<MergeSymbol> symbols;
    symbols.reserve(escaped.size());
    for (size_t i = 0; i < escaped.size();) {
      const size_t size = CharacterBytes(escaped, i);
      const auto index = static_cast<int32_t>(symbols.size());
      const bool last = i + size == escaped.size();
      symbols.push_back({static_cast<int32_t>(i), static_cast<int32_t>(size),
                         Mergeable({escaped.data() + i, size}), index - 1, last ? -1 : index + 1});
      i += size;
    }
    MergeQueue<float> queue;
    queue.Run(symbols, [&](const MergeSymbol& l, const MergeSymbol& r) -> MergeOffer<float> {
      const int32_t id = Mergeable({escaped.data() + l.begin, static_cast<size_t>(l.size + r.size)});
      if (id < 0) return {};
      return {-spec_.scores[static_cast<size_t>(id)], id};
    });
    for (const MergeSymbol& symbol : symbols) {
      if (symbol.size == 0) continue;
      if (symbol.id >= 0) {
        ids->push_back(symbol.id);
        continue;
      }
      for (int32_t i = 0; i < symbol.size; ++i) {
        ids->push_back(byte_ids_[static_cast<unsigned char>(escaped[static_cast<size_t>(symbol.begin + i)])]);
      }
    }
    return OkStatus();
  }

  std::string OrdinaryPiece(std::string_view piece) const override {
    std::string out;
    for (size_t i = 0; i < piece.size();) {
      if (piece.substr(i).starts_with(kSpace)) {
        out.push_back(' ');
        i += kSpace.size();
      } else {
        out.push_back(piece[i++]);
      }
    }
    return out;
  }

 private:
  static std::string Escape(std::string_view text, bool space_first) {
    std::string out;
    out.reserve(text.size() + text.size() / 2);
    if (space_first) out += kSpace;
    for (const char c : text) {
      if (c == ' ') {
        out += kSpace;
      } else {
        out.push_back(c);
      }
    }
    return out;
  }

  // The piece that ordinary text may become: never a control token or a byte's, whatever the text spells.
  int32_t Mergeable(std::string_view text) const {
    const int32_t id = table_.Find(text);
    if (id < 0 || is_control(id) || spec_.types[static_cast<size_t>(id)] == TokenType::kByte) return -1;
    return id;
  }

  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> CreateSentencePieceBpe(TokenizerSpec spec,
                                                          std::vector<int32_t> end_tokens) {
  auto tokenizer = std::make_unique<SentencePieceBpe>(std::move(spec), std::move(end_tokens));
  HF_RETURN_IF_ERROR(tokenizer->Build());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace holdfast
