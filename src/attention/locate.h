// Where a chunk's rows lie, and which of them a query sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/kernels/softmax_kernels.h"
#include "codec/codec.h"
#include "span/span.h"

namespace holdfast {

// What a query sees of a chunk.
ChunkView ViewOfChunk(const VisibleRange& visible, int64_t chunk);

// The first span that ends past `position`.
std::ptrdiff_t FirstPast(std::span<const Span> spans, int64_t position);

// Fills k (and v unless null) with the tiles [k->begin, k->end) of the chunk for one KV head; tiles that no
// span holds become `hole`, a tile of zeros.
void LocateTiles(std::span<const Span> spans, int64_t chunk, int kv_head, int64_t k_tile_bytes,
                 int64_t v_tile_bytes, const std::byte* hole, ChunkTiles* k, ChunkTiles* v);

// The same for a chunk of gathered positions: tile i of it is page pages[chunk * kChunkTiles + i]. REQUIRES that spans
// hold them.
void LocatePages(std::span<const Span> spans, const int64_t* pages, int64_t chunk, int kv_head,
                 int64_t k_tile_bytes, int64_t v_tile_bytes, ChunkTiles* k, ChunkTiles* v);

}  // namespace holdfast
