#include "cache/cache_memory.h"

#include <cassert>
#include <utility>

#include "base/status_macros.h"

namespace holdfast {
namespace {

size_t Index(BlockId id) {
  return static_cast<size_t>(static_cast<int64_t>(id));
}

}  // namespace

BlockPool::BlockPool(std::shared_ptr<Arena> arena, int64_t block_bytes)
    : arena_(std::move(arena)), block_bytes_(block_bytes) {}

BlockPool::~BlockPool() {
  assert(ids_.live_blocks() == 0);
}

Result<BlockId> BlockPool::Allocate() {
  HF_ASSIGN_OR_RETURN(std::byte * memory, arena_->Allocate(block_bytes_));
  const Result<BlockId> id = ids_.Allocate();
  if (!id.ok()) {
    arena_->Free(memory, block_bytes_);
    return id.status();
  }
  if (Index(*id) >= data_.size()) data_.resize(Index(*id) + 1);
  data_[Index(*id)] = memory;
  return *id;
}

void BlockPool::AddRef(BlockId id) {
  ids_.AddRef(id);
}

void BlockPool::Release(BlockId id) {
  if (!ids_.Release(id)) return;
  arena_->Free(data_[Index(id)], block_bytes_);
  data_[Index(id)] = nullptr;
}

bool BlockPool::shared(BlockId id) const {
  return ids_.refs(id) > 1;
}

std::byte* BlockPool::data(BlockId id) const {
  return data_[Index(id)];
}

int64_t BlockPool::live_blocks() const {
  return ids_.live_blocks();
}

CacheMemory::CacheMemory(int64_t limit_bytes) : arena_(std::make_shared<Arena>(limit_bytes)) {}

BlockPool& CacheMemory::pool(int64_t block_bytes) {
  std::unique_ptr<BlockPool>& pool = pools_[block_bytes];
  if (pool == nullptr) pool = std::make_unique<BlockPool>(arena_, block_bytes);
  return *pool;
}

}  // namespace holdfast
