// Sparse pages: which pages of 16 rows a query token visits where it sees more than it may.
//
// For each token and KV head on its own, so that the choice depends on the token's queries and on the rows that it sees
// alone. Taken for certain are the first page seen, where the attention sink is, and the kRecentPages last ones, the
// token's own among them. Of the pages between, all rows of which the token sees, those with the highest score are
// taken, the lower position first where scores are equal. A page's score is the largest, over the query heads of the KV
// head, of what the page can score at most less what any page that is seen whole can score at most for that head: how
// far behind the best one it is at least.
//
// The chosen pages are then attended side by side, as if they were all that is stored: page i of the choice takes rows
// [16 i, 16 i + 16) of "gathered" positions, and chunks are cut of those. A token that sees no more pages than it may
// chooses nothing and is attended as ever, so that the result is the same to the bit.
//
// Source: Tang et al. 2024 (Quest), arXiv:2406.10774; the head's own maximum is ours, for heads that share rows.
#pragma once

#include <cstdint>

#include "attention/attend.h"
#include "attention/kernels/page_kernels.h"
#include "attention/kernels/softmax_kernels.h"
#include "base/checked.h"

namespace holdfast {

inline constexpr int64_t kRecentPages = 4;
inline constexpr int64_t kCertainPages = 1 + kRecentPages;
static_assert(kMinSparsePages > kCertainPages, "some of them must be for choice");

// Pages of which the token sees a row, from page visible.begin / 16 on. REQUIRES sink_end == 0.
inline int64_t PagesSeen(const VisibleRange& visible) {
  if (visible.begin >= visible.end) return 0;
  return CeilDiv(visible.end, kTileRows) - visible.begin / kTileRows;
}

// Whether the token chooses among its pages, of which it may see sparse_pages (0: all).
inline bool ChoosesPages(const VisibleRange& visible, int64_t sparse_pages) {
  return sparse_pages > 0 && PagesSeen(visible) > sparse_pages;
}

// The gathered positions that the token sees of `count` chosen pages.
inline VisibleRange GatheredRange(const VisibleRange& visible, int64_t count) {
  const int64_t last_page = (visible.end - 1) / kTileRows;
  return {.begin = visible.begin % kTileRows,
          .end = (count - 1) * kTileRows + visible.end - last_page * kTileRows};
}

// What a task's token visits; pages null: everything.
struct PageChoice {
  const int64_t* pages = nullptr;  // ascending
  int64_t count = 0;
  VisibleRange visible;  // gathered
};

// One call's chooser. Pure; the scratch is the caller's.
class PageChooser {
 public:
  PageChooser(const AttentionCall& call, Isa isa);

  int64_t halves() const { return group_ * 2 * dims_; }  // floats that Bound wants for its queries
  // Floats of a row of bounds where a token sees `pages`.
  static int64_t Stride(int64_t pages) { return RoundUp(pages, kTileRows) + 2 * kTileRows; }

  // Bounds of the pages [begin, end) of those that the token sees, counted from the first, for the query heads of a KV
  // head: bounds [group, stride].
  void Bound(const AttentionSequence& sequence, int64_t token, int kv_head, int64_t begin, int64_t end,
             float* halves, float* bounds, int64_t stride) const;
  // Chooses call.sparse_pages pages by the bounds of all that are seen; overwrites them.
  void Choose(const VisibleRange& visible, float* bounds, int64_t stride, int64_t* pages) const;

 private:
  const AttentionCall& call_;
  const PageKernels& kernels_;
  const SoftmaxKernels& softmax_;
  int64_t group_;
  int dims_;
  int64_t page_bytes_;
  float sign_;
};

}  // namespace holdfast
