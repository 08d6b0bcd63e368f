#include "attention/page_choice.h"

#include <algorithm>

#include "attention/locate.h"
#include "attention/partial.h"
#include "attention/plan.h"
#include "span/page_bounds.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(PageKernels, kPageKernels)
HOLDFAST_DECLARE_KERNELS(SoftmaxKernels, kSoftmaxKernels)

PageChooser::PageChooser(const AttentionCall& call, Isa isa)
    : call_(call),
      kernels_(HOLDFAST_SELECT_KERNELS(isa, kPageKernels)),
      softmax_(HOLDFAST_SELECT_KERNELS(isa, kSoftmaxKernels)),
      group_(call.q_heads / call.kv_heads),
      dims_(static_cast<int>(PageBoundDims(call.shape.k_dim))),
      page_bytes_(PageBoundsBytes(call.shape.k_dim)),
      sign_(call.rule.scale < 0.0f ? -1.0f : 1.0f) {}

void PageChooser::Bound(const AttentionSequence& sequence, int64_t token, int kv_head, int64_t begin,
                        int64_t end, float* halves, float* bounds, int64_t stride) const {
  constexpr int kPages = kPageTaskPages;
  const int k_dim = call_.shape.k_dim;
  const int64_t row = (sequence.first_token + token) * call_.q_heads + kv_head * group_;
  for (int64_t h = 0; h < group_; ++h) {
    const float* query = call_.q + (row + h) * k_dim;
    float* to = halves + h * 2 * dims_;
    if (softmax_.all_finite(query, k_dim)) {
      kernels_.split(query, k_dim, sign_, to);
    } else {  // its output is NaN whatever it visits
      std::fill_n(to, 2 * dims_, 0.0f);
    }
  }
  const int64_t first_page = sequence.visible[static_cast<size_t>(token)].begin / kTileRows;
  const std::byte* at[kPages];
  std::span<const Span> spans = sequence.spans;
  auto span = spans.begin() + FirstPast(spans, (first_page + begin) * kTileRows);
  for (int64_t p = begin; p < end;) {
    const int n = static_cast<int>(std::min<int64_t>(end - p, kPages));
    for (int i = 0; i < n; ++i) {
      const int64_t page = first_page + p + i;
      while (span->end() <= page * kTileRows) ++span;
      at[i] = span->bounds + kv_head * span->bounds_head_stride_bytes +
              (page - span->begin / kTileRows) * page_bytes_;
    }
    kernels_.bound(halves, static_cast<int>(group_), dims_, at, n, bounds + p, stride);
    p += n;
  }
}

void PageChooser::Choose(const VisibleRange& visible, float* bounds, int64_t stride, int64_t* pages) const {
  const int64_t seen = PagesSeen(visible);
  const int64_t first = visible.begin / kTileRows;
  // Seen whole are [begin, end): those between the certain ones are.
  const int64_t begin = visible.begin % kTileRows == 0 ? 0 : 1;
  const int64_t end = visible.end / kTileRows - first;
  kernels_.score(bounds + begin, static_cast<int>(group_), stride, end - begin);
  const int64_t between = seen - kCertainPages;
  const int64_t wanted = call_.sparse_pages - kCertainPages;
  float* scores = bounds + 1;
  std::fill_n(scores + between, kTileRows, kEmptyMax);
  const float least = kernels_.nth(scores, between, wanted);
  int64_t better = 0;
  for (int64_t p = 0; p < between; ++p) better += scores[p] <= least ? 0 : 1;
  int64_t equal = wanted - better;
  *pages++ = first;
  const int64_t* chosen_end = pages + wanted;
  for (int64_t p = 0; p < between && pages < chosen_end; ++p) {
    if (scores[p] < least || (scores[p] == least && equal-- <= 0)) continue;
    *pages++ = first + 1 + p;
  }
  for (int64_t i = 0; i < kRecentPages; ++i) *pages++ = first + seen - kRecentPages + i;
}

}  // namespace holdfast
