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

// What matching one word may cost. Backing up costs no memory that grows with the text, so that text of any
// length stays far below the defaults; past them Split is an error.
struct MatchLimits {
  uint32_t matches = 1'000'000;
  uint32_t heap_kib = 65536;
  bool compile = true;  // to machine code where the system allows it; the words are the same
};

// Immutable; its patterns are compiled once and may be matched from several threads at a time.
class PreTokenizer {
 public:
  // Error kUnimplemented: a name that is not in the table.
  static Result<std::unique_ptr<PreTokenizer>> Create(std::string_view name, const MatchLimits& limits = {});
  virtual ~PreTokenizer() = default;

  // Lengths in bytes of the words that `text` consists of, in order; they add up to text.size(). Each of the
  // table's patterns in turn cuts what the ones before left: a match is a word, and so is what lies between
  // two matches. REQUIRES: text is UTF-8, surrogates allowed. Error kResourceExhausted (no memory, or a match
  // past MatchLimits: says where).
  virtual Result<std::vector<size_t>> Split(std::string_view text) const = 0;
};

}  // namespace holdfast
