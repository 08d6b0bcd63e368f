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
  bool shared(BlockId id) const;
  std::byte* data(BlockId id) const;
  int64_t block_bytes() const { return block_bytes_; }
  int64_t live_blocks() const;

 private:
  std::shared_ptr<Arena> arena_;
  int64_t block_bytes_;
  BlockAllocator ids_;
  std::vector<std::byte*> data_;
};

// Shared by all sequences that may share blocks. One thread changes caches at a time; attention's threads
// only read.
class CacheMemory {
 public:
  explicit CacheMemory(int64_t limit_bytes = 0);
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  // The pool of blocks of this size; lives as long as this object.
  BlockPool& pool(int64_t block_bytes);
  int64_t allocated_bytes() const { return arena_->allocated_bytes(); }

 private:
  std::shared_ptr<Arena> arena_;
  std::map<int64_t, std::unique_ptr<BlockPool>> pools_;
};

}  // namespace holdfast
