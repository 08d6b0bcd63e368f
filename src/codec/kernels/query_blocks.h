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

// A block's registers are allocated by themselves; inlined into its caller's loops, some of them spill.
#define HF_NOINLINE __attribute__((noinline))
#define HF_MEMBER __attribute__((always_inline)) inline

namespace holdfast::HOLDFAST_ISA_NS {

// Below this a query, or the largest of the weights that are quantised together, counts as 0: its reciprocal would
// leave float's range.
inline constexpr float kTiny = 1e-30f;

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

// Runs Kernel over queries [0, queries), at most kMost at a time and in blocks as even as can be.
template <typename Kernel, int kMost, typename... Args>
HF_INLINE void ForQueryBlocks(int queries, Args... args) {
  const int blocks = (queries + kMost - 1) / kMost;
  for (int b = 0, first = 0; b < blocks; ++b) {
    const int n = (queries - first + blocks - b - 1) / (blocks - b);
    RunBlock<Kernel, kMost>(n, first, args...);
    first += n;
  }
}

// The same address, of which the compiler knows nothing: it kept one register a constant offset of it otherwise, more
// than there are.
HF_INLINE const std::byte* Opaque(const std::byte* p) {
  __asm__("" : "+r"(p));
  return p;
}

// The tile that is read `ahead` tiles after tile i of the chunk, for prefetching; tile i where that is
// unknown.
HF_INLINE const std::byte* TileAhead(const ChunkTiles& tiles, int i, int ahead) {
  const int past = i + ahead - tiles.end;
  if (past < 0) return tiles.tile[i + ahead];
  if (tiles.next == nullptr || tiles.next->begin + past >= tiles.next->end) return tiles.tile[i];
  return tiles.next->tile[tiles.next->begin + past];
}

// Asks for a line into the second-level cache only, from further ahead than the first level has room for.
HF_INLINE void PrefetchFar(const std::byte* p) {
  __builtin_prefetch(p, 0, 2);
}

template <bool far>
HF_INLINE void Ask(const std::byte* p) {
  if constexpr (far) {
    PrefetchFar(p);
  } else {
    Prefetch(p);
  }
}

// Asks for T tiles ahead, T lines at a time, one tile after the other as they lie in memory: the hardware
// follows one stream a page.
template <int T, bool far>
struct AskInOrder {
  const std::byte* const* tile;
  const std::byte* at;
  const std::byte* end;
  int bytes;
  int done = 0;
  HF_MEMBER AskInOrder(const std::byte* const* tiles, int tile_bytes)
      : tile(tiles), at(tiles[0]), end(tiles[0] + tile_bytes), bytes(tile_bytes) {}
  HF_MEMBER void Lines() {
#pragma GCC unroll 16
    for (int j = 0; j < T; ++j) Ask<far>(at + j * 64);
    at += T * 64;
    if (T > 1 && at >= end && done + 1 < T) {
      ++done;
      at = tile[done];
      end = at + bytes;
    }
  }
};

}  // namespace holdfast::HOLDFAST_ISA_NS
