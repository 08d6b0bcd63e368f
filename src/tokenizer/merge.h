// The loop of byte-pair encoding: the best adjacent pair is joined until no pair may be.
//
// A priority queue of pairs makes it O(n log n) in the symbols of one word, so that a word of a megabyte
// costs no more than prose of that size; entries that a later join has made stale are recognised by their
// size and skipped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace holdfast {

// A stretch of a word. Joined symbols keep the left one's index; the right one's size becomes 0.
struct MergeSymbol {
  int32_t begin = 0, size = 0;       // bytes within the word
  int32_t id = -1;                   // the piece it is, -1 if none
  int32_t previous = -1, next = -1;  // indices of the neighbours, -1 at the ends
};

// What joining two neighbours would give. Smaller priority first; of equals the leftmost.
template <typename Priority>
struct MergeOffer {
  Priority priority{};
  int32_t id = -1;  // -1: they cannot be joined
};

template <typename Priority>
class MergeQueue {
 public:
  // offer(left, right) -> MergeOffer<Priority> for two symbols that are neighbours in `symbols` (linked in
  // order).
  template <typename Offer>
  void Run(std::vector<MergeSymbol>& symbols, const Offer& offer) {
    heap_.clear();
    const auto consider = [&](int32_t left, int32_t right) {
      if (left < 0 || right < 0) return;
      const MergeSymbol& l = symbols[static_cast<size_t>(left)];
      const MergeSymbol& r = symbols[static_cast<size_t>(right)];
      const MergeOffer<Priority> o = offer(l, r);
      if (o.id < 0) return;
      heap_.push_back({o.priority, left, right, l.size + r.size, o.id});
      std::push_heap(heap_.begin(), heap_.end(), Later);
    };
    for (size_t i = 1; i < symbols.size(); ++i)
      consider(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
    while (!heap_.empty()) {
      const Entry best = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      heap_.pop_back();
      MergeSymbol& l = symbols[static_cast<size_t>(best.left)];
      MergeSymbol& r = symbols[static_cast<size_t>(best.right)];
      if (l.size == 0 || r.size == 0 || l.size + r.size != best.size) continue;
      l.size = best.size;
      l.id = best.id;
      l.next = r.next;
      r.size = 0;
      if (l.next >= 0) symbols[static_cast<size_t>(l.next)].previous = best.left;
      consider(l.previous, best.left);
      consider(best.left, l.next);
    }
  }

 private:
  struct Entry {
    Priority priority;
    int32_t left, right, size, id;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.left > b.left;
  }
  std::vector<Entry> heap_;
};

}  // namespace holdfast
