#include "holdfast/cache_config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/checked.h"
#include "base/status_macros.h"
#include "cache/layer_plan.h"
#include "codec/codec.h"

namespace holdfast {
namespace {

Status CheckRange(const std::string& what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument(what + " is " + std::to_string(value) + ", must be in [" + std::to_string(low) +
                         ", " + std::to_string(high) + "]");
}

// Ids come from callers as enums, but a cast can put anything into them.
template <typename Id>
Status CheckId(const std::string& what, Id id, const std::vector<Id>& known) {
  if (std::find(known.begin(), known.end(), id) != known.end()) return OkStatus();
  return InvalidArgument(what + " is id " + std::to_string(static_cast<int>(id)) + ", which does not exist");
}

Status CheckCodec(const std::string& what, CodecSpec spec, int dim) {
  HF_RETURN_IF_ERROR(CheckId(what, spec.id, AllCodecs()));
  const Status group = CheckGroup(spec, dim);
  return group.ok() ? group : Status(group.code(), what + ": " + group.message());
}

Status CheckTransform(const std::string& what, const RowTransformConfig& transform, CodecSpec codec,
                      int kv_heads, int dim) {
  if (transform.none()) return OkStatus();
  if (!GetCodec(codec).integer_dots) {
    return InvalidArgument(what + (transform.rotate ? " rotates" : " centres") + " rows of codec " +
                           CodecSpecName(codec) + ", only integer codecs gain by it");
  }
  if (transform.center == nullptr) return OkStatus();
  const std::vector<float>& center = *transform.center;
  const auto expected = static_cast<size_t>(kv_heads) * static_cast<size_t>(dim);
  if (center.size() != expected) {
    return InvalidArgument(what + " has a centre of " + std::to_string(center.size()) + " values, must be " +
                           std::to_string(expected) + " = " + std::to_string(kv_heads) + " heads * " +
                           std::to_string(dim) + " dims");
  }
  for (size_t i = 0; i < center.size(); ++i) {
    if (std::isfinite(center[i])) continue;
    return InvalidArgument(what + " has a centre whose value " + std::to_string(i) + " is " +
                           std::to_string(center[i]) + ", must be finite");
  }
  return OkStatus();
}

Status CheckTransforms(const LayerConfig& layer, const std::string& where) {
  HF_RETURN_IF_ERROR(CheckTransform(where + "k_transform", layer.k_transform, layer.k_codec, layer.kv_heads,
                                    layer.shape.k_dim));
  if (!layer.shape.v_is_prefix_of_k) {
    return CheckTransform(where + "v_transform", layer.v_transform, layer.v_codec, layer.kv_heads,
                          layer.shape.v_dim);
  }
  if (layer.v_transform.none()) return OkStatus();
  return InvalidArgument(where +
                         "v_transform is set, must be none for a latent row: its V is the prefix of its K");
}

Status CheckRows(const LayerConfig& layer, const std::string& where) {
  HF_RETURN_IF_ERROR(CheckRange(where + "kv_heads", layer.kv_heads, 1, kMaxKvHeads));
  HF_RETURN_IF_ERROR(CheckRange(where + "k_dim", layer.shape.k_dim, 1, kMaxDim));
  const int v_limit = layer.shape.v_is_prefix_of_k ? layer.shape.k_dim : kMaxDim;
  HF_RETURN_IF_ERROR(CheckRange(where + "v_dim", layer.shape.v_dim, 1, v_limit));
  HF_RETURN_IF_ERROR(CheckCodec(where + "k_codec", layer.k_codec, layer.shape.k_dim));
  if (layer.shape.v_is_prefix_of_k) return OkStatus();
  return CheckCodec(where + "v_codec", layer.v_codec, layer.shape.v_dim);
}

// The second copy must be of some use: better than the first, and not all that is seen.
Status CheckProtection(const LayerConfig& layer, const std::string& where) {
  const ProtectionConfig& protection = layer.protection;
  if (protection.none()) return OkStatus();
  HF_RETURN_IF_ERROR(
      CheckRange(where + "protection sink_tokens", protection.sink_tokens, 0, kMaxContextTokens));
  const bool window = layer.layout.id == LayoutId::kWindow;
  const int64_t most = window ? layer.layout.window_tokens - 1 : kMaxContextTokens;
  HF_RETURN_IF_ERROR(CheckRange(where + "protection recent_tokens", protection.recent_tokens, 0, most));
  HF_RETURN_IF_ERROR(CheckCodec(where + "protection K codec", protection.codecs.k, layer.shape.k_dim));
  if (layer.shape.v_is_prefix_of_k) return OkStatus();
  return CheckCodec(where + "protection V codec", protection.codecs.v, layer.shape.v_dim);
}

Status CheckSparsePages(const LayerConfig& layer, const std::string& where) {
  if (layer.sparse_pages == 0) return OkStatus();
  if (layer.layout.id != LayoutId::kFull) {
    return InvalidArgument(where + "sparse_pages is " + std::to_string(layer.sparse_pages) +
                           ", must be 0: the layout is " + std::string(LayoutName(layer.layout.id)) +
                           ", only layout full chooses pages");
  }
  return CheckRange(where + "sparse_pages", layer.sparse_pages, kMinSparsePages, kMaxSparsePages);
}

Status CheckLayer(const LayerConfig& layer, const std::string& where) {
  HF_RETURN_IF_ERROR(CheckRows(layer, where));
  HF_RETURN_IF_ERROR(CheckTransforms(layer, where));
  HF_RETURN_IF_ERROR(CheckId(where + "layout", layer.layout.id, AllLayouts()));
  const Status layout = GetLayout(layer.layout.id).check(layer.layout);
  if (!layout.ok()) return Status(layout.code(), where + layout.message());
  if (!(layer.sparse_v >= 0.0f && layer.sparse_v < 1.0f)) {
    return InvalidArgument(where + "sparse_v is " + std::to_string(layer.sparse_v) + ", must be in [0, 1)");
  }
  HF_RETURN_IF_ERROR(CheckSparsePages(layer, where));
  return CheckProtection(layer, where);
}

}  // namespace

Status ValidateCacheConfig(const CacheConfig& config) {
  const std::string where = "cache configuration: ";
  HF_RETURN_IF_ERROR(
      CheckRange(where + "number of layers", static_cast<int64_t>(config.layers.size()), 1, kMaxLayers));
  HF_RETURN_IF_ERROR(CheckRange(where + "max_context", config.max_context, 1, kMaxContextTokens));
  HF_RETURN_IF_ERROR(CheckRange(where + "rewind_tokens", config.rewind_tokens, 0, kMaxRewindTokens));
  HF_RETURN_IF_ERROR(CheckId(where + "storage", config.storage, AllStorages()));
  // Of every storage, so that a wrong value is not carried along until somebody changes the storage.
  for (const StorageId id : AllStorages()) {
    const Status storage = GetStorage(id).check(config);
    if (!storage.ok()) return Status(storage.code(), where + storage.message());
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckLayer(config.layers[i], where + "layer " + std::to_string(i) + ": "));
  }
  return OkStatus();
}

LayerPlan MakeLayerPlan(const CacheConfig& config, const LayerConfig& rows) {
  const int64_t granule = GetStorage(config.storage).granule_rows(config);
  LayerPlan plan;
  plan.tiles = MakeTileGeometry(rows);
  plan.slots = GetLayout(rows.layout.id).slots(rows.layout, config.rewind_tokens, granule);
  plan.max_slots = plan.slots.SlotsFor(RoundUp(config.max_context, granule));
  return plan;
}

std::optional<LayerConfig> ProtectedLayer(const LayerConfig& layer) {
  if (layer.protection.none()) return std::nullopt;
  const VisibleRange far = GetLayout(layer.layout.id).visible(layer.layout, kMaxContextTokens);
  LayerConfig kept = layer;
  kept.layout = {.id = LayoutId::kWindow,
                 .window_tokens = std::max<int64_t>(layer.protection.recent_tokens, 1),
                 .sink_tokens = far.begin == 0 ? layer.protection.sink_tokens : far.sink_end};
  kept.k_codec = layer.protection.codecs.k;
  kept.v_codec = layer.protection.codecs.v;
  kept.protection = {};
  kept.sparse_pages = 0;
  return kept;
}

namespace {

// A layer's bytes at a length, its protected rows included.
CacheBytes PlanRows(const CacheConfig& config, const LayerConfig& layer, int64_t length_tokens) {
  const LayerPlan plan = MakeLayerPlan(config, layer);
  CacheBytes bytes =
      GetStorage(config.storage).plan(config, plan.tiles, plan.slots.SlotsFor(length_tokens), plan.max_slots);
  if (const auto kept = ProtectedLayer(layer)) bytes += PlanRows(config, *kept, length_tokens);
  return bytes;
}

}  // namespace

Result<int64_t> RowBytes(const LayerConfig& layer) {
  HF_RETURN_IF_ERROR(CheckRows(layer, "row bytes: "));
  return MakeTileGeometry(layer).BytesForRows(kTileRows) / kTileRows;
}

Result<CacheBytes> PlanLayer(const CacheConfig& config, int layer, int64_t length_tokens) {
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  HF_RETURN_IF_ERROR(
      CheckRange("plan layer: layer", layer, 0, static_cast<int64_t>(config.layers.size()) - 1));
  HF_RETURN_IF_ERROR(CheckRange("plan layer: length", length_tokens, 0, config.max_context));
  return PlanRows(config, config.layers[static_cast<size_t>(layer)], length_tokens);
}

Result<CacheBytes> PlanCache(const CacheConfig& config, int64_t length_tokens) {
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  HF_RETURN_IF_ERROR(CheckRange("plan cache: length", length_tokens, 0, config.max_context));
  CacheBytes sum;
  for (const LayerConfig& layer : config.layers) {
    const CacheBytes bytes = PlanRows(config, layer, length_tokens);
    const auto rows = CheckedAdd(sum.row_bytes, bytes.row_bytes);
    const auto metadata = CheckedAdd(sum.metadata_bytes, bytes.metadata_bytes);
    if (!rows || !metadata || !CheckedAdd(*rows, *metadata)) {
      return OutOfRange("plan cache: " + std::to_string(length_tokens) + " tokens take more than 2^63 bytes");
    }
    sum = {.row_bytes = *rows, .metadata_bytes = *metadata};
  }
  return sum;
}

}  // namespace holdfast
