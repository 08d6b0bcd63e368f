// The memory that the caches of many sequences share: one arena, and block ids with reference counts over it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/arena.h"
#include "paging/block_allocator.h"

namespace holdfast {

// Blocks of one size: ids from a BlockAllocator, bytes from the arena, zeroed when allocated. Not
// thread-safe.
class BlockPool {
 public:
  BlockPool(std::shared_ptr<Arena> arena, int64_t block_bytes);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  Result<BlockId> Allocate();
  void AddRef(BlockId id);
  void Release(BlockId id);
  // One more reference that is no sequence's: of an index that keeps the block for later. REQUIRES a live id.
  void Keep(BlockId id);
  void Unkeep(BlockId id);

  bool shared(BlockId id) const;     // by anyone: who writes to it takes a copy first
  int32_t owners(BlockId id) const;  // sequences, without those that keep it
  std::byte* data(BlockId id) const;
  int64_t block_bytes() const { return block_bytes_; }
  int64_t live_blocks() const;                   // allocated ones
  int64_t idle_blocks() const { return idle_; }  // of these, kept ones that no sequence owns

 private:
  void Free(BlockId id);

  std::shared_ptr<Arena> arena_;
  int64_t block_bytes_;
  BlockAllocator ids_;
  std::vector<std::byte*> data_;
  std::vector<int32_t> kept_;
  int64_t idle_ = 0;
};

// Shared by all sequences that may share blocks. One thread changes caches at a time; attention's threads
// only read.
class CacheMemory {
 public:
  explicit CacheMemory(int64_t limit_bytes = 0);
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  // The pool of blocks of this size; lives as long as this object.
  BlockPool& pool(int64_t block_bytes);
  const std::map<int64_t, std::unique_ptr<BlockPool>>& pools() const { return pools_; }
  int64_t allocated_bytes() const { return arena_->allocated_bytes(); }
  // Of all pools: blocks that are allocated, and those of them that are idle, in blocks and in the arena's bytes.
  struct Totals {
    int64_t blocks = 0, idle_blocks = 0;
    int64_t bytes = 0, idle_bytes = 0;
  };
  Totals totals() const;

 private:
  std::shared_ptr<Arena> arena_;
  std::map<int64_t, std::unique_ptr<BlockPool>> pools_;
};

}  // namespace holdfast
