#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

constexpr int32_t kReplacement = 0xfffd;

// Moves what is decided from *pending to the result; the beginning of a character stays.
std::string TakeComplete(std::string* pending) {
  std::string out;
  size_t i = 0;
  while (i < pending->size()) {
    size_t size = 0;
    bool incomplete = false;
    const int32_t code_point = ReadCharacter(*pending, i, &size, &incomplete);
    if (incomplete) break;
    if (code_point < 0) {
      AppendUtf8(kReplacement, &out);
    } else {
      out.append(*pending, i, size);
    }
    i += size;
  }
  pending->erase(0, i);
  return out;
}

}  // namespace

std::string StreamDecoder::Add(std::string_view piece) {
  pending_ += piece;
  return TakeComplete(&pending_);
}

std::string StreamDecoder::Finish() {
  std::string out;
  if (!pending_.empty()) AppendUtf8(kReplacement, &out);
  pending_.clear();
  return out;
}

}  // namespace holdfast
