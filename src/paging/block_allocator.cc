#include "paging/block_allocator.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <string>

namespace holdfast {
namespace {

size_t Index(BlockId id) {
  return static_cast<size_t>(static_cast<int64_t>(id));
}

}  // namespace

BlockAllocator::BlockAllocator(int64_t max_blocks) : max_blocks_(max_blocks) {}

Result<BlockId> BlockAllocator::Allocate() {
  if (!free_.empty()) {
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    const int64_t id = free_.back();
    free_.pop_back();
    refs_[static_cast<size_t>(id)] = 1;
    return static_cast<BlockId>(id);
  }
  const auto handed_out = static_cast<int64_t>(refs_.size());
  if (max_blocks_ > 0 && handed_out >= max_blocks_) {
    return ResourceExhausted("allocate block: all " + std::to_string(max_blocks_) + " blocks are in use");
  }
  refs_.push_back(1);
  return static_cast<BlockId>(handed_out);
}

void BlockAllocator::AddRef(BlockId id) {
  assert(refs(id) > 0);
  ++refs_[Index(id)];
}

bool BlockAllocator::Release(BlockId id) {
  assert(refs(id) > 0);
  if (--refs_[Index(id)] > 0) return false;
  free_.push_back(static_cast<int64_t>(id));
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
  return true;
}

int32_t BlockAllocator::refs(BlockId id) const {
  return id == BlockId::kNone || Index(id) >= refs_.size() ? 0 : refs_[Index(id)];
}

int64_t BlockAllocator::live_blocks() const {
  return static_cast<int64_t>(refs_.size() - free_.size());
}

}  // namespace holdfast
