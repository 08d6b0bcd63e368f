#include "attention/locate.h"

#include <algorithm>

#include "base/checked.h"

namespace holdfast {

ChunkView ViewOfChunk(const VisibleRange& visible, int64_t chunk) {
  const int64_t first = chunk * kChunkRows;
  const auto row = [&](int64_t position) {
    return static_cast<int32_t>(std::clamp<int64_t>(position - first, 0, kChunkRows));
  };
  ChunkView view;
  view.end0 = row(std::min(visible.sink_end, visible.end));
  view.begin1 = row(visible.begin);
  view.end1 = std::max(row(visible.end), view.begin1);
  if (view.begin1 <= view.end0 && view.begin1 < view.end1) {  // they touch: one interval
    view.end0 = std::max(view.end0, view.end1);
    view.begin1 = view.end1 = 0;
  }
  if (view.begin1 == view.end1) view.begin1 = view.end1 = 0;
  return view;
}

// Blocks are of one size: it is looked for where it lies if all are but the first.
std::ptrdiff_t FirstPast(std::span<const Span> spans, int64_t position) {
  const auto past = [&](const Span& s) { return s.end() > position; };
  if (spans.empty() || past(spans.front())) return 0;
  if (spans.size() > 1) {
    const int64_t guess = (position - spans[1].begin) / std::max<int64_t>(spans[1].rows, 1) + 1;
    const auto i = static_cast<size_t>(guess);
    if (guess > 0 && i < spans.size() && past(spans[i]) && !past(spans[i - 1])) return guess;
  }
  return std::partition_point(spans.begin(), spans.end(), [&](const Span& s) { return !past(s); }) -
         spans.begin();
}

void LocateTiles(std::span<const Span> spans, int64_t chunk, int kv_head, int64_t k_tile_bytes,
                 int64_t v_tile_bytes, const std::byte* hole, ChunkTiles* k, ChunkTiles* v) {
  const int64_t first_tile = chunk * kChunkTiles;
  const int64_t begin = (first_tile + k->begin) * kTileRows;
  const int64_t end = (first_tile + k->end) * kTileRows;
  for (int t = k->begin; t < k->end; ++t) {
    k->tile[t] = hole;
    if (v != nullptr) v->tile[t] = hole;
  }
  auto span = spans.begin() + FirstPast(spans, begin);
  for (; span != spans.end() && span->begin < end; ++span) {
    if (span->rows <= 0) continue;
    const int64_t span_tile = span->begin / kTileRows;
    const auto from = static_cast<int>(std::max<int64_t>(span_tile - first_tile, k->begin));
    const auto to = static_cast<int>(std::min<int64_t>(CeilDiv(span->end(), kTileRows) - first_tile, k->end));
    const std::byte* k_head = span->k + kv_head * span->k_head_stride_bytes;
    for (int t = from; t < to; ++t) k->tile[t] = k_head + (first_tile + t - span_tile) * k_tile_bytes;
    if (v == nullptr) continue;
    const std::byte* v_head = span->v + kv_head * span->v_head_stride_bytes;
    for (int t = from; t < to; ++t) v->tile[t] = v_head + (first_tile + t - span_tile) * v_tile_bytes;
  }
}

void LocatePages(std::span<const Span> spans, const int64_t* pages, int64_t chunk, int kv_head,
                 int64_t k_tile_bytes, int64_t v_tile_bytes, ChunkTiles* k, ChunkTiles* v) {
  const int64_t* page = pages + chunk * kChunkTiles;
  if (k->begin == k->end) return;
  auto span = spans.begin() + FirstPast(spans, page[k->begin] * kTileRows);
  for (int t = k->begin; t < k->end; ++t) {
    if (span->end() <= page[t] * kTileRows) span = spans.begin() + FirstPast(spans, page[t] * kTileRows);
    const int64_t at = page[t] - span->begin / kTileRows;
    k->tile[t] = span->k + kv_head * span->k_head_stride_bytes + at * k_tile_bytes;
    if (v != nullptr) v->tile[t] = span->v + kv_head * span->v_head_stride_bytes + at * v_tile_bytes;
  }
}

}  // namespace holdfast
