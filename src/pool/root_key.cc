// The root of a tree of prefixes: everything that rows depend on but the tokens.
#include "pool/cache_pool.h"

namespace holdfast {
namespace {

void AddCodec(Sha256Builder& key, const char* name, CodecSpec spec) {
  key.AddString(name, CodecSpecName(spec));
}

void AddTransform(Sha256Builder& key, const char* name, const RowTransformConfig& transform) {
  key.AddU64(name, transform.rotate ? 1 : 0);
  key.AddU64("centers", transform.center == nullptr ? 0 : transform.center->size());
  if (transform.center == nullptr) return;
  for (const float value : *transform.center) key.AddF32("center", value);
}

void AddLayer(Sha256Builder& key, const LayerConfig& layer) {
  key.AddString("layout", LayoutName(layer.layout.id));
  key.AddU64("window", static_cast<uint64_t>(layer.layout.window_tokens));
  key.AddU64("sinks", static_cast<uint64_t>(layer.layout.sink_tokens));
  AddCodec(key, "k", layer.k_codec);
  AddCodec(key, "v", layer.v_codec);
  key.AddU64("k_dim", static_cast<uint64_t>(layer.shape.k_dim));
  key.AddU64("v_dim", static_cast<uint64_t>(layer.shape.v_dim));
  key.AddU64("latent", layer.shape.v_is_prefix_of_k ? 1 : 0);
  key.AddU64("kv_heads", static_cast<uint64_t>(layer.kv_heads));
  AddTransform(key, "k_rotate", layer.k_transform);
  AddTransform(key, "v_rotate", layer.v_transform);
  key.AddU64("protect_sinks", static_cast<uint64_t>(layer.protection.sink_tokens));
  key.AddU64("protect_recent", static_cast<uint64_t>(layer.protection.recent_tokens));
  AddCodec(key, "protect_k", layer.protection.codecs.k);
  AddCodec(key, "protect_v", layer.protection.codecs.v);
  // What a layer leaves out of its output reaches the rows of the layers after it.
  key.AddF32("sparse_v", layer.sparse_v);
  key.AddU64("sparse_pages", static_cast<uint64_t>(layer.sparse_pages));
}

}  // namespace

Sha256 CacheDigest(const CacheConfig& config) {
  Sha256Builder key("holdfast cache", 2);
  key.AddU64("block_tokens", static_cast<uint64_t>(config.block_tokens));
  key.AddU64("layers", config.layers.size());
  for (const LayerConfig& layer : config.layers) AddLayer(key, layer);
  return key.Finish();
}

BlockKey RootKey(const PrefixIdentity& identity, const Sha256& cache) {
  Sha256Builder key("holdfast root", 1);
  key.AddDigest("model", identity.model);
  key.AddDigest("adapter", identity.adapter);
  key.AddString("namespace", identity.name_space);
  key.AddDigest("cache", cache);
  return key.Finish();
}

}  // namespace holdfast
