// Ids and reference counts of blocks. Knows nothing of bytes, rows or layers.
#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Names a block of one allocator. 64-bit so that no cache wraps it.
enum class BlockId : int64_t { kNone = -1 };

// Hands out ids, lowest free first. Not thread-safe.
class BlockAllocator {
 public:
  // max_blocks: ids are in [0, max_blocks); 0 = unbounded.
  explicit BlockAllocator(int64_t max_blocks = 0);

  // A block with one reference. Error: kResourceExhausted, naming the limit.
  Result<BlockId> Allocate();
  // One more owner. REQUIRES a live id.
  void AddRef(BlockId id);
  // One owner fewer; true where it was the last and the id is free again. REQUIRES a live id.
  bool Release(BlockId id);

  int32_t refs(BlockId id) const;  // 0 for a free id
  int64_t live_blocks() const;

 private:
  int64_t max_blocks_;
  std::vector<int32_t> refs_;
  std::vector<int64_t> free_;  // min-heap
};

}  // namespace holdfast
