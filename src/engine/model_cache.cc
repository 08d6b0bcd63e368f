#include "engine/model_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/cache_transforms.h"
#include "models/model.h"

namespace holdfast {

ModelInfo ModelInfoOf(const ModelConfig& model, std::string path) {
  ModelInfo info;
  info.architecture = model.architecture;
  info.name = model.name;
  info.path = std::move(path);
  info.vocab_size = model.vocab_size;
  info.hidden_dim = model.hidden_dim;
  info.ffn_dim = model.ffn_dim;
  info.context_length = model.context_length;
  info.layers = model.layers;
  info.q_heads = model.q_heads;
  info.kv_heads = model.kv_heads;
  info.head_dim = model.head_dim;
  return info;
}

namespace {

Status CheckLayers(const char* what, int64_t first, int64_t last, int64_t layers) {
  if (first >= 0 && first <= last && last < layers) return OkStatus();
  return InvalidArgument("cache: " + std::string(what) + " names layers " + std::to_string(first) + " to " +
                         std::to_string(last) + ", the model has 0 to " + std::to_string(layers - 1));
}

// Which layer has which codecs, and which of them keep protected rows.
Status SetSchemes(const CacheOptions& options, CacheConfig& config) {
  const auto layers = static_cast<int>(config.layers.size());
  const auto set = [&](int first, int last, const KvSpec& codecs) {
    for (int i = first; i <= last; ++i) {
      config.layers[static_cast<size_t>(i)].k_codec = codecs.k;
      config.layers[static_cast<size_t>(i)].v_codec = codecs.v;
    }
  };
  set(0, layers - 1, {options.k_codec, options.v_codec});
  for (const LayerScheme& scheme : options.layers) {
    HF_RETURN_IF_ERROR(CheckLayers("a layer scheme", scheme.first, scheme.last, layers));
    set(scheme.first, scheme.last, scheme.codecs);
  }
  const int protect = options.protect_layers;
  if (protect < 0 || protect > layers) {
    return InvalidArgument("cache: protect_layers is " + std::to_string(protect) + ", must be in [0, " +
                           std::to_string(layers) + "]");
  }
  set(0, protect - 1, {});
  set(layers - protect, layers - 1, {});
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));  // codecs are looked up from here on
  const auto is_full = [](const LayerConfig& layer) { return layer.layout.id == LayoutId::kFull; };
  if (options.sparse_pages != 0 && std::none_of(config.layers.begin(), config.layers.end(), is_full)) {
    return InvalidArgument("cache: sparse_pages is " + std::to_string(options.sparse_pages) +
                           " but every layer is a window; pages are chosen by layers that see all positions");
  }
  for (LayerConfig& layer : config.layers) {
    layer.sparse_v = options.sparse_v;
    if (is_full(layer)) layer.sparse_pages = options.sparse_pages;
    if (HasIntegerCodec(layer)) layer.protection = options.protection;
  }
  return ValidateCacheConfig(config);
}

}  // namespace

Result<CacheConfig> CacheConfigOf(const ModelConfig& model, const CacheOptions& options) {
  CacheConfig config;
  config.layers = CacheLayers(model);
  config.storage = options.storage;
  config.block_tokens = options.block_tokens;
  config.rewind_tokens = options.rewind_tokens;
  config.max_context = options.max_context == 0 ? model.context_length : options.max_context;
  if (config.max_context > model.context_length) {
    return OutOfRange("cache: max_context is " + std::to_string(config.max_context) +
                      ", the model's context length is " + std::to_string(model.context_length));
  }
  if (options.window_tokens < 0 || options.sink_tokens < 0) {
    return InvalidArgument("cache: window_tokens is " + std::to_string(options.window_tokens) +
                           ", sink_tokens is " + std::to_string(options.sink_tokens) + ", both must be >= 0");
  }
  if (options.sink_tokens > 0 && options.window_tokens == 0) {
    return InvalidArgument("cache: sink_tokens is " + std::to_string(options.sink_tokens) +
                           " but window_tokens is 0; sinks belong to a window");
  }
  for (LayerConfig& layer : config.layers) {
    if (options.window_tokens > 0 && layer.layout.id == LayoutId::kFull) {
      layer.layout = {LayoutId::kWindow, options.window_tokens, options.sink_tokens};
    }
  }
  HF_RETURN_IF_ERROR(SetSchemes(options, config));
  HF_RETURN_IF_ERROR(SetRotations(options.rotate, config));
  return config;
}

CacheConfig RawConfigOf(CacheConfig config) {
  for (LayerConfig& layer : config.layers) {
    layer.k_codec = layer.v_codec = CodecId::kF16;
    layer.k_transform = layer.v_transform = {};
    layer.protection = {};
  }
  return config;
}

std::vector<LayerInfo> LayerInfosOf(const ModelConfig& model, const CacheConfig& config) {
  std::vector<LayerInfo> layers;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    layers.push_back({config.layers[i], model.q_heads, model.attention[i].rope_base});
  }
  return layers;
}

}  // namespace holdfast
