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
  if (Index(*id) >= data_.size()) {
    data_.resize(Index(*id) + 1);
    kept_.resize(Index(*id) + 1);
  }
  data_[Index(*id)] = memory;
  return *id;
}

void BlockPool::AddRef(BlockId id) {
  if (kept_[Index(id)] > 0 && owners(id) == 0) --idle_;
  ids_.AddRef(id);
}

void BlockPool::Release(BlockId id) {
  if (!ids_.Release(id)) {
    if (kept_[Index(id)] > 0 && owners(id) == 0) ++idle_;
    return;
  }
  Free(id);
}

void BlockPool::Keep(BlockId id) {
  ids_.AddRef(id);
  ++kept_[Index(id)];
}

void BlockPool::Unkeep(BlockId id) {
  assert(kept_[Index(id)] > 0);
  if (owners(id) == 0 && kept_[Index(id)] == 1) --idle_;
  --kept_[Index(id)];
  if (ids_.Release(id)) Free(id);
}

void BlockPool::Free(BlockId id) {
  arena_->Free(data_[Index(id)], block_bytes_);
  data_[Index(id)] = nullptr;
}

bool BlockPool::shared(BlockId id) const {
  return ids_.refs(id) > 1;
}

int32_t BlockPool::owners(BlockId id) const {
  return ids_.refs(id) - kept_[Index(id)];
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

CacheMemory::Totals CacheMemory::totals() const {
  Totals totals;
  for (const auto& [block_bytes, pool] : pools_) {
    const int64_t bytes = ArenaBlockBytes(block_bytes);
    totals.blocks += pool->live_blocks();
    totals.idle_blocks += pool->idle_blocks();
    totals.bytes += pool->live_blocks() * bytes;
    totals.idle_bytes += pool->idle_blocks() * bytes;
  }
  return totals;
}

}  // namespace holdfast
