// paged: blocks of block_tokens rows from a pool that sequences share. A fork owns the same blocks; who
// writes a block that another owns too takes a copy first, or an empty one where the old rows are dead (a
// ring's new lap).
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "cache/storage.h"
#include "cache/storages/slot_table.h"

namespace holdfast {
namespace {

constexpr int kMinBlockTokens = 16;
constexpr int kMaxBlockTokens = 256;

CacheBytes PlanBlocks(int64_t block_tokens, const TileGeometry& tiles, int64_t slots) {
  const int64_t blocks = CeilDiv(slots, block_tokens);
  return {.row_bytes = blocks * ArenaBlockBytes(tiles.BytesForRows(block_tokens)),
          .metadata_bytes = SlotTable<BlockId>::BytesFor(blocks)};
}

CacheBytes Plan(const CacheConfig& config, const TileGeometry& tiles, int64_t slots, int64_t) {
  return PlanBlocks(config.block_tokens, tiles, slots);
}

class PagedStorage final : public Storage, public SharedBlocks {
 public:
  PagedStorage(int block_tokens, const TileGeometry& tiles, std::shared_ptr<CacheMemory> memory)
      : block_tokens_(block_tokens),
        tiles_(tiles),
        memory_(std::move(memory)),
        pool_(memory_->pool(tiles.BytesForRows(block_tokens))),
        blocks_(memory_->arena()) {}
  ~PagedStorage() override { Truncate(0); }

  Status MakeWritable(int64_t begin, int64_t end, OldRows old_rows) override {
    assert(begin <= blocks_.size() * block_tokens_);
    for (int64_t block = begin / block_tokens_; block < CeilDiv(end, block_tokens_); ++block) {
      if (block == blocks_.size()) {
        HF_RETURN_IF_ERROR(AddBlock());
      } else if (pool_.shared(blocks_[block])) {
        HF_RETURN_IF_ERROR(ReplaceBlock(block, old_rows));
      }
    }
    return OkStatus();
  }

  void Truncate(int64_t slots) override {
    const int64_t keep = CeilDiv(slots, block_tokens_);
    for (int64_t block = keep; block < blocks_.size(); ++block) pool_.Release(blocks_[block]);
    if (keep < blocks_.size()) blocks_.Resize(keep);
  }

  TileRun Locate(int64_t slot) const override {
    const int64_t block = slot / block_tokens_;
    assert(block < blocks_.size());
    const int64_t begin = block * block_tokens_;
    return LocateInBlock(pool_.data(blocks_[block]), tiles_, begin, block_tokens_, slot - begin);
  }

  Result<std::unique_ptr<Storage>> Fork() const override {
    auto copy = std::make_unique<PagedStorage>(block_tokens_, tiles_, memory_);
    for (int64_t block = 0; block < blocks_.size(); ++block) {
      HF_RETURN_IF_ERROR(copy->blocks_.PushBack(blocks_[block]));
      pool_.AddRef(blocks_[block]);
    }
    return std::unique_ptr<Storage>(std::move(copy));
  }

  CacheBytes bytes() const override {
    return {.row_bytes = blocks_.size() * ArenaBlockBytes(pool_.block_bytes()),
            .metadata_bytes = blocks_.bytes()};
  }

  CacheBytes PlanFor(int64_t slots) const override { return PlanBlocks(block_tokens_, tiles_, slots); }

  SharedBlocks* shared_blocks() override { return this; }
  BlockPool& pool() const override { return pool_; }
  int64_t count() const override { return blocks_.size(); }
  BlockId id(int64_t block) const override { return blocks_[block]; }
  Status Adopt(BlockId id) override {
    HF_RETURN_IF_ERROR(blocks_.PushBack(id));
    pool_.AddRef(id);
    return OkStatus();
  }
  void Replace(int64_t block, BlockId id) override {
    pool_.AddRef(id);
    pool_.Release(blocks_[block]);
    blocks_[block] = id;
  }

 private:
  Status AddBlock() {
    HF_ASSIGN_OR_RETURN(const BlockId id, pool_.Allocate());
    const Status pushed = blocks_.PushBack(id);
    if (!pushed.ok()) pool_.Release(id);
    return pushed;
  }

  Status ReplaceBlock(int64_t block, OldRows old_rows) {
    HF_ASSIGN_OR_RETURN(const BlockId fresh, pool_.Allocate());
    const BlockId old = blocks_[block];
    if (old_rows == OldRows::kKeep) {
      std::memcpy(pool_.data(fresh), pool_.data(old), static_cast<size_t>(pool_.block_bytes()));
    }
    pool_.Release(old);
    blocks_[block] = fresh;
    return OkStatus();
  }

  int64_t block_tokens_;
  TileGeometry tiles_;
  std::shared_ptr<CacheMemory> memory_;
  BlockPool& pool_;
  SlotTable<BlockId> blocks_;
};

Status Check(const CacheConfig& config) {
  const int tokens = config.block_tokens;
  if (tokens < kMinBlockTokens || tokens > kMaxBlockTokens ||
      !std::has_single_bit(static_cast<unsigned>(tokens))) {
    return InvalidArgument("storage paged: block_tokens is " + std::to_string(tokens) +
                           ", must be a power of two in [" + std::to_string(kMinBlockTokens) + ", " +
                           std::to_string(kMaxBlockTokens) + "]");
  }
  return OkStatus();
}

int64_t GranuleRows(const CacheConfig& config) {
  return config.block_tokens;
}

Result<std::unique_ptr<Storage>> Create(const CacheConfig& config, const TileGeometry& tiles, int64_t,
                                        std::shared_ptr<CacheMemory> memory) {
  return std::unique_ptr<Storage>(
      std::make_unique<PagedStorage>(config.block_tokens, tiles, std::move(memory)));
}

}  // namespace

extern const StorageTraits kPagedStorage;
const StorageTraits kPagedStorage = {
    .id = StorageId::kPaged,
    .name = "paged",
    .check = Check,
    .granule_rows = GranuleRows,
    .plan = Plan,
    .create = Create,
};

}  // namespace holdfast
