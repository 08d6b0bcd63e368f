// What attention sees of a cache: runs of encoded rows with their absolute positions, and what each query may
// see of them. Nothing here knows a layout, a storage or a codec.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast {

// A contiguous run of encoded rows, all KV heads, in memory owned by a cache.
//
// Tiles are aligned to absolute positions: tile t of a sequence holds positions [16t, 16t + 16) whatever the
// layout and storage. A span may begin and end inside a tile. `k` and `v` point at the tile that holds
// `begin`, for KV head 0; head h is h * head_stride further. Successive tiles follow each other. For a latent
// row v is null: the value is the prefix of the K row. Valid until the cache is next changed.
//
// Two spans that both hold positions of one tile point at the same tile: a tile is never split over two
// places. Rows of a tile outside every span may be stale or never written; they are finite and nobody sees
// them.
struct Span {
  int64_t begin = 0;  // absolute position of the first row
  int64_t rows = 0;
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  int64_t k_head_stride_bytes = 0;
  int64_t v_head_stride_bytes = 0;
  // Bounds of the pages (page_bounds.h), one a tile, as `k`; null where the layer keeps none. Those of a tile mean
  // something once all of its rows have been appended.
  const std::byte* bounds = nullptr;
  int64_t bounds_head_stride_bytes = 0;

  int64_t end() const { return begin + rows; }
};

// The positions one query sees: [0, sink_end) and [begin, end); end is the query's own position + 1.
// The two may overlap; a position in both counts once. REQUIRES 0 <= begin <= end.
struct VisibleRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t sink_end = 0;

  bool Sees(int64_t position) const { return position < end && (position >= begin || position < sink_end); }
};

}  // namespace holdfast
