// contiguous: chunks of 256 rows that belong to one sequence. Growing adds a chunk and moves nothing; where
// the slots are bounded the last chunk is only as large as they need.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/checked.h"
#include "cache/storage.h"
#include "cache/storages/slot_table.h"
#include "codec/codec.h"

namespace holdfast {
namespace {

constexpr int64_t kContiguousChunkRows = 256;

int64_t RowsOfChunk(int64_t chunk, int64_t max_slots) {
  return std::min(kContiguousChunkRows, max_slots - chunk * kContiguousChunkRows);
}

CacheBytes PlanChunks(const TileGeometry& tiles, int64_t slots, int64_t max_slots) {
  CacheBytes bytes;
  const int64_t chunks = CeilDiv(slots, kContiguousChunkRows);
  if (chunks == 0) return bytes;
  const int64_t last = RowsOfChunk(chunks - 1, max_slots);
  bytes.row_bytes = (chunks - 1) * ArenaBlockBytes(tiles.BytesForRows(kContiguousChunkRows)) +
                    ArenaBlockBytes(tiles.BytesForRows(last));
  bytes.metadata_bytes = SlotTable<std::byte*>::BytesFor(chunks);
  return bytes;
}

CacheBytes Plan(const CacheConfig&, const TileGeometry& tiles, int64_t slots, int64_t max_slots) {
  return PlanChunks(tiles, slots, max_slots);
}

class ContiguousStorage final : public Storage {
 public:
  ContiguousStorage(const TileGeometry& tiles, int64_t max_slots, std::shared_ptr<CacheMemory> memory)
      : tiles_(tiles), max_slots_(max_slots), memory_(std::move(memory)), chunks_(memory_->arena()) {}
  ~ContiguousStorage() override { Truncate(0); }

  Status MakeWritable(int64_t, int64_t end, OldRows) override {
    assert(end <= max_slots_);
    while (chunks_.size() * kContiguousChunkRows < end) {
      const int64_t bytes = ChunkBytes(chunks_.size());
      HF_ASSIGN_OR_RETURN(std::byte * chunk, memory_->arena()->Allocate(bytes));
      const Status pushed = chunks_.PushBack(chunk);
      if (!pushed.ok()) {
        memory_->arena()->Free(chunk, bytes);
        return pushed;
      }
    }
    return OkStatus();
  }

  void Truncate(int64_t slots) override {
    const int64_t keep = CeilDiv(slots, kContiguousChunkRows);
    for (int64_t chunk = keep; chunk < chunks_.size(); ++chunk) {
      memory_->arena()->Free(chunks_[chunk], ChunkBytes(chunk));
    }
    if (keep < chunks_.size()) chunks_.Resize(keep);
  }

  TileRun Locate(int64_t slot) const override {
    const int64_t chunk = slot / kContiguousChunkRows;
    assert(chunk < chunks_.size());
    const int64_t begin = chunk * kContiguousChunkRows;
    return LocateInBlock(chunks_[chunk], tiles_, begin, RowsOfChunk(chunk, max_slots_), slot - begin);
  }

  Result<std::unique_ptr<Storage>> Fork() const override {
    auto copy = std::make_unique<ContiguousStorage>(tiles_, max_slots_, memory_);
    for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const int64_t end = chunk * kContiguousChunkRows + RowsOfChunk(chunk, max_slots_);
      HF_RETURN_IF_ERROR(copy->MakeWritable(0, end, OldRows::kKeep));
      std::memcpy(copy->chunks_[chunk], chunks_[chunk], static_cast<size_t>(ChunkBytes(chunk)));
    }
    return std::unique_ptr<Storage>(std::move(copy));
  }

  CacheBytes bytes() const override {
    CacheBytes bytes;
    for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      bytes.row_bytes += ArenaBlockBytes(ChunkBytes(chunk));
    }
    bytes.metadata_bytes = chunks_.bytes();
    return bytes;
  }

  CacheBytes PlanFor(int64_t slots) const override { return PlanChunks(tiles_, slots, max_slots_); }

 private:
  int64_t ChunkBytes(int64_t chunk) const { return tiles_.BytesForRows(RowsOfChunk(chunk, max_slots_)); }

  TileGeometry tiles_;
  int64_t max_slots_;
  std::shared_ptr<CacheMemory> memory_;
  SlotTable<std::byte*> chunks_;
};

Status Check(const CacheConfig&) {
  return OkStatus();
}

int64_t GranuleRows(const CacheConfig&) {
  return kTileRows;
}

Result<std::unique_ptr<Storage>> Create(const CacheConfig&, const TileGeometry& tiles, int64_t max_slots,
                                        std::shared_ptr<CacheMemory> memory) {
  return std::unique_ptr<Storage>(std::make_unique<ContiguousStorage>(tiles, max_slots, std::move(memory)));
}

}  // namespace

extern const StorageTraits kContiguousStorage;
const StorageTraits kContiguousStorage = {
    .id = StorageId::kContiguous,
    .name = "contiguous",
    .check = Check,
    .granule_rows = GranuleRows,
    .plan = Plan,
    .create = Create,
};

}  // namespace holdfast
