// Byte-level BPE (GPT-2): text is cut into words by the model's pre-tokeniser, a word's bytes are joined by
// rank.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/status_macros.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merge.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace holdfast {
namespace {

class ByteLevelBpe final : public VocabularyTokenizer {
 public:
  ByteLevelBpe(TokenizerSpec spec, std::vector<int32_t> end_tokens)
      : VocabularyTokenizer(std::move(spec), std::move(end_tokens)) {}

  Status Build() {
    HF_ASSIGN_OR_RETURN(pre_tokenizer_, PreTokenizer::Create(spec_.pre));
    HF_RETURN_IF_ERROR(BuildTable());
    for (size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = Find(ByteAlphabet()[byte]);
    merges_.reserve(spec_.merges.size());
    for (size_t rank = 0; rank < spec_.merges.size(); ++rank) HF_RETURN_IF_ERROR(AddMerge(rank));
    spec_.merges = {};
    return OkStatus();
  }

 protected:
  Status EncodeText(std::string_view text, bool /*after_token*/, std::vector<int32_t>* ids) const override {
    std::string repaired;
    if (!IsUtf8(text)) {
      repaired = RepairUtf8(text);
      text = repaired;
    }
    MergeQueue<int32_t> queue;
    std::vector<MergeSymbol> symbols;
    HF_ASSIGN_OR_RETURN(const std::vector<size_t> words, pre_tokenizer_->Split(text));
    for (const size_t word_bytes : words) {
      EncodeWord(text.substr(0, word_bytes), queue, symbols, ids);
      text.remove_prefix(word_bytes);
    }
    return OkStatus();
  }

  std::string OrdinaryPiece(std::string_view piece) const override {
    std::string out;
    size_t size = 0;
    bool incomplete = false;
    for (size_t i = 0; i < piece.size(); i += size) {
      const int byte = ByteOfCharacter(ReadCharacter(piece, i, &size, &incomplete));
      // A character outside the alphabet can only stand for itself.
      if (byte < 0) {
        out.append(piece, i, size);
      } else {
        out.push_back(static_cast<char>(byte));
      }
    }
    return out;
  }

 private:
  struct Merge {
    int32_t rank, id;
  };
  static uint64_t PairKey(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }

  Status AddMerge(size_t rank) {
    const std::string_view merge = spec_.merges[rank];
    const std::string name = "tokenizer: merge " + std::to_string(rank);
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return DataLoss(name + " is not two pieces with a space between them");
    }
    const std::string left(merge.substr(0, space)), right(merge.substr(space + 1));
    const int32_t left_id = Find(left), right_id = Find(right), joined_id = Find(left + right);
    if (left_id < 0 || right_id < 0 || joined_id < 0) {
      const char* which = left_id < 0 ? "its left side" : right_id < 0 ? "its right side" : "its result";
      return DataLoss(name + ": " + which + " is no piece of the vocabulary");
    }
    merges_.emplace(PairKey(left_id, right_id), Merge{static_cast<int32_t>(rank), joined_id});
    return OkStatus();
  }

  void EncodeWord(std::string_view word, MergeQueue<int32_t>& queue, std::vector<MergeSymbol>& symbols,
                  std::vector<int32_t>* ids) const {
    symbols.resize(word.size());
    const auto last = static_cast<int32_t>(word.size()) - 1;
    for (int32_t i = 0; i <= last; ++i) {
      const auto byte = static_cast<unsigned char>(word[static_cast<size_t>(i)]);
      symbols[static_cast<size_t>(i)] = {i, 1, byte_ids_[byte], i - 1, i == last ? -1 : i + 1};
    }
    queue.Run(symbols, [this](const MergeSymbol& l, const MergeSymbol& r) -> MergeOffer<int32_t> {
      if (l.id < 0 || r.id < 0) return {};
      const auto merge = merges_.find(PairKey(l.id, r.id));
      if (merge == merges_.end()) return {};
      return {merge->second.rank, merge->second.id};
    });
    for (const MergeSymbol& symbol : symbols) {
      if (symbol.size > 0 && symbol.id >= 0) ids->push_back(symbol.id);
    }
  }

  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<uint64_t, Merge> merges_;  // by the two pieces' ids
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> CreateByteLevelBpe(TokenizerSpec spec, std::vector<int32_t> end_tokens) {
  auto tokenizer = std::make_unique<ByteLevelBpe>(std::move(spec), std::move(end_tokens));
  HF_RETURN_IF_ERROR(tokenizer->Build());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace holdfast
