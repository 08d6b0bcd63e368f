// A storage: where the rows of one layer of one sequence live, by slot. Knows nothing of positions or
// visibility.
//
// Adding one: src/cache/storages/<name>.cc and a line in include/holdfast/storage_list.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/arena.h"
#include "cache/cache_memory.h"
#include "holdfast/cache_config.h"

namespace holdfast {

// Where a slot's tile lies and how far contiguous memory goes from there.
struct TileRun {
  std::byte* k = nullptr;       // tile that holds the slot, KV head 0
  std::byte* v = nullptr;       // null for a latent row
  std::byte* bounds = nullptr;  // of the tile's page; null where the layer keeps none
  int64_t k_head_stride_bytes = 0;
  int64_t v_head_stride_bytes = 0;
  int64_t bounds_head_stride_bytes = 0;
  int64_t end_slot = 0;  // first slot past this contiguous run
};

// Bytes of the tiles of one layer; from the codecs' tile sizes, computed once.
struct TileGeometry {
  int kv_heads = 0;
  int64_t k_tile_bytes = 0;
  int64_t v_tile_bytes = 0;  // 0 for a latent row
  int64_t bounds_bytes = 0;  // of a tile's page (span/page_bounds.h); 0 where the layer keeps none
  int64_t BytesForRows(int64_t rows) const {  // rows: a multiple of 16
    return rows / 16 * kv_heads * (k_tile_bytes + v_tile_bytes + bounds_bytes);
  }
};
TileGeometry MakeTileGeometry(const LayerConfig& layer);

// Where slot `begin_slot + row` lies in memory that holds the slots [begin_slot, begin_slot + rows) at
// `base`: the K tiles head by head, then the V tiles head by head, then the pages' bounds head by head. The one place that
// knows this order (docs/formats/cache.md).
TileRun LocateInBlock(std::byte* base, const TileGeometry& tiles, int64_t begin_slot, int64_t rows,
                      int64_t row);

class SharedBlocks;

// Whether the bytes of rows about to be overwritten matter to anyone.
enum class OldRows { kKeep, kDead };

class Storage {
 public:
  virtual ~Storage() = default;

  // Makes slots [begin, end) writable by this sequence alone: allocates what is missing, in ascending order,
  // and replaces blocks that others share: by a copy, or by an empty block where old_rows is kDead. REQUIRES
  // begin <= slots allocated so far. On error what was allocated stays until Truncate.
  virtual Status MakeWritable(int64_t begin, int64_t end, OldRows old_rows) = 0;
  // Gives back whole chunks or blocks at or past `slots`.
  virtual void Truncate(int64_t slots) = 0;
  // REQUIRES the slot was made writable and not truncated since.
  virtual TileRun Locate(int64_t slot) const = 0;
  // A second storage with the same rows: shares blocks where it can, copies where it cannot.
  virtual Result<std::unique_ptr<Storage>> Fork() const = 0;
  // What is allocated now, shared blocks included. Equal to the plan's formula for the slots in use.
  virtual CacheBytes bytes() const = 0;
  // What it will be with so many slots in use.
  virtual CacheBytes PlanFor(int64_t slots) const = 0;

  // For storages whose blocks sequences share, null for others; valid as long as the storage.
  virtual SharedBlocks* shared_blocks() { return nullptr; }
  const SharedBlocks* shared_blocks() const { return const_cast<Storage*>(this)->shared_blocks(); }
};

// The blocks of a storage by number: block n holds the slots [n * granule, (n + 1) * granule).
class SharedBlocks {
 public:
  virtual BlockPool& pool() const = 0;
  virtual int64_t count() const = 0;
  virtual BlockId id(int64_t block) const = 0;
  // Adds block count(), owned together with whoever has it already. Error: kResourceExhausted.
  virtual Status Adopt(BlockId id) = 0;
  // Gives up block `block` for one with the same rows, owned together with whoever has it.
  virtual void Replace(int64_t block, BlockId id) = 0;

 protected:
  ~SharedBlocks() = default;
};

struct StorageTraits {
  StorageId id;
  const char* name;
  Status (*check)(const CacheConfig& config);
  // Rows that are replaced together (see LayoutTraits::slots).
  int64_t (*granule_rows)(const CacheConfig& config);
  // Bytes allocated once `slots` slots are in use, of at most `max_slots`, a multiple of the granule.
  CacheBytes (*plan)(const CacheConfig& config, const TileGeometry& tiles, int64_t slots, int64_t max_slots);
  Result<std::unique_ptr<Storage>> (*create)(const CacheConfig& config, const TileGeometry& tiles,
                                             int64_t max_slots, std::shared_ptr<CacheMemory> memory);
};

const StorageTraits& GetStorage(StorageId id);

}  // namespace holdfast
