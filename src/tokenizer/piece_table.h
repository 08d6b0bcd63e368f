// From a piece's text to its id: one open-addressed table, built in a few milliseconds for 262144 pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Refers to the pieces it was built from, which must outlive it unchanged. Immutable and thread-safe once
// built.
class PieceTable {
 public:
  // Error kDataLoss: two pieces with the same text (names both ids).
  static Result<PieceTable> Build(std::span<const std::string> pieces);

  // -1 if there is none.
  int32_t Find(std::string_view text) const;
  size_t longest_bytes() const { return longest_bytes_; }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };
  // The slot that holds `text`, or the empty one where it would go.
  size_t Locate(std::string_view text, uint32_t hash) const;

  std::span<const std::string> pieces_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t longest_bytes_ = 0;
};

}  // namespace holdfast
