// From token pieces to the text a user sees: whole characters only, cut before the first stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace holdfast {

class TextStream {
 public:
  TextStream() = default;
  // Empty stop strings are ignored.
  explicit TextStream(std::vector<std::string> stop);

  // Adds a piece; gives the text that can no longer be part of a stop string.
  std::string Add(std::string_view piece);
  // What was held back, at the end of a generation that no stop string ended.
  std::string Finish();
  // A stop string was found; nothing at or after it is ever given out.
  bool stopped() const { return stopped_; }

 private:
  std::string Release();

  std::vector<std::string> stop_;
  StreamDecoder decoder_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace holdfast
