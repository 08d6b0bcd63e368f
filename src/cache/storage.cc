#include "cache/storage.h"

#include "codec/codec.h"
#include "span/page_bounds.h"

namespace holdfast {

#define HOLDFAST_DECLARE_STORAGE(id, name, symbol) extern const StorageTraits k##symbol##Storage;
HOLDFAST_STORAGES(HOLDFAST_DECLARE_STORAGE)
#undef HOLDFAST_DECLARE_STORAGE

namespace {

constexpr const StorageTraits* kStorages[] = {
#define HOLDFAST_STORAGE_ENTRY(id, name, symbol) &k##symbol##Storage,
    HOLDFAST_STORAGES(HOLDFAST_STORAGE_ENTRY)
#undef HOLDFAST_STORAGE_ENTRY
};

}  // namespace

const StorageTraits& GetStorage(StorageId id) {
  return *kStorages[static_cast<size_t>(id)];
}

std::string_view StorageName(StorageId id) {
  return GetStorage(id).name;
}

std::vector<StorageId> AllStorages() {
  std::vector<StorageId> all;
  for (const StorageTraits* storage : kStorages) all.push_back(storage->id);
  return all;
}

Result<StorageId> ParseStorage(std::string_view name) {
  std::string known;
  for (const StorageTraits* storage : kStorages) {
    if (name == storage->name) return storage->id;
    known += (known.empty() ? "" : ", ") + std::string(storage->name);
  }
  return InvalidArgument("storage: \"" + std::string(name) + "\" is not one of " + known);
}

TileGeometry MakeTileGeometry(const LayerConfig& layer) {
  TileGeometry tiles;
  tiles.kv_heads = layer.kv_heads;
  tiles.k_tile_bytes = GetCodec(layer.k_codec).k_tile_bytes({layer.shape.k_dim, layer.k_codec.group});
  if (!layer.shape.v_is_prefix_of_k) {
    tiles.v_tile_bytes = GetCodec(layer.v_codec).v_tile_bytes({layer.shape.v_dim, layer.v_codec.group});
  }
  if (layer.sparse_pages > 0) tiles.bounds_bytes = PageBoundsBytes(layer.shape.k_dim);
  return tiles;
}

TileRun LocateInBlock(std::byte* base, const TileGeometry& tiles, int64_t begin_slot, int64_t rows,
                      int64_t row) {
  const int64_t tile = row / kTileRows;
  TileRun run;
  run.k_head_stride_bytes = rows / kTileRows * tiles.k_tile_bytes;
  run.v_head_stride_bytes = rows / kTileRows * tiles.v_tile_bytes;
  run.k = base + tile * tiles.k_tile_bytes;
  if (tiles.v_tile_bytes > 0) {
    run.v = base + tiles.kv_heads * run.k_head_stride_bytes + tile * tiles.v_tile_bytes;
  }
  if (tiles.bounds_bytes > 0) {
    run.bounds_head_stride_bytes = rows / kTileRows * tiles.bounds_bytes;
    run.bounds = base + tiles.kv_heads * (run.k_head_stride_bytes + run.v_head_stride_bytes) +
                 tile * tiles.bounds_bytes;
  }
  run.end_slot = begin_slot + rows;
  return run;
}

}  // namespace holdfast
