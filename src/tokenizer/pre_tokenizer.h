// How a byte-level tokenizer cuts text into words before merging: a table of patterns by the name that GGUF
// files use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Immutable; its patterns are compiled once and may be matched from several threads at a time.
class PreTokenizer {
 public:
  // Error kUnimplemented: a name that is not in the table.
  static Result<std::unique_ptr<PreTokenizer>> Create(std::string_view name);
  virtual ~PreTokenizer() = default;

  // Lengths in bytes of the words that `text` consists of, in order; they add up to text.size(). Each of the
  // table's patterns in turn cuts what the ones before left: a match is a word, and so is what lies between
  // two matches. REQUIRES: text is UTF-8, surrogates allowed.
  virtual std::vector<size_t> Split(std::string_view text) const = 0;
};

}  // namespace holdfast
