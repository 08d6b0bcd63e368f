// From a number of queries known at run time to blocks of a number known to the compiler.
//
// A kernel keeps the accumulators of a block of queries in registers, so the block's size is a template
// argument:
//   struct Kernel { template <int Q> static void Run(int first, <arguments>); };   // queries [first, first +
//   Q)
// Included by kernel files only, after simd/vec.h.
#pragma once

#include "codec/codec_kernels.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {

template <typename Kernel, int kMost, typename... Args>
HF_INLINE void RunBlock(int n, int first, Args... args) {
  if constexpr (kMost == 1) {
    Kernel::template Run<1>(first, args...);
  } else if (n >= kMost) {
    Kernel::template Run<kMost>(first, args...);
  } else {
    RunBlock<Kernel, kMost - 1>(n, first, args...);
  }
}

// Runs Kernel over queries [0, queries), kMost at a time.
template <typename Kernel, int kMost, typename... Args>
HF_INLINE void ForQueryBlocks(int queries, Args... args) {
  for (int first = 0; first < queries; first += kMost) {
    RunBlock<Kernel, kMost>(queries - first, first, args...);
  }
}

// The tile that is read after tile i of the chunk, for prefetching; tile i itself where nothing is known.
HF_INLINE const std::byte* TileAfter(const ChunkTiles& tiles, int i, int ahead) {
  if (i + ahead < tiles.end) return tiles.tile[i + ahead];
  return tiles.after != nullptr ? tiles.after : tiles.tile[i];
}

}  // namespace holdfast::HOLDFAST_ISA_NS
