#include "cli/layer_figures.h"

#include <cstdio>

namespace holdfast::cli {
namespace {

Result<Json> LayerJson(const LayerInfo& layer, int index, const CacheConfig& config) {
  const LayerConfig& c = layer.cache;
  auto row_bytes = RowBytes(c);
  if (!row_bytes.ok()) return row_bytes.status();
  auto plan = PlanLayer(config, index, config.max_context);
  if (!plan.ok()) return plan.status();
  Json json;
  json["layer"] = index;
  json["layout"] = LayoutName(c.layout.id);
  if (c.layout.id == LayoutId::kWindow) {
    json["window_tokens"] = c.layout.window_tokens;
    json["sink_tokens"] = c.layout.sink_tokens;
  }
  json["k_codec"] = CodecSpecName(c.k_codec);
  json["v_codec"] = CodecSpecName(c.v_codec);
  json["k_rotate"] = c.k_transform.rotate;
  json["v_rotate"] = c.v_transform.rotate;
  json["k_center"] = c.k_transform.center != nullptr;
  json["v_center"] = c.v_transform.center != nullptr;
  json["storage"] = StorageName(config.storage);
  json["q_heads"] = layer.q_heads;
  json["kv_heads"] = c.kv_heads;
  json["k_dim"] = c.shape.k_dim;
  json["v_dim"] = c.shape.v_dim;
  json["rope_base"] = layer.rope_base;
  json["bytes_per_token"] = *row_bytes;
  json["planned_bytes"] = plan->total_bytes();
  return json;
}

}  // namespace

Result<Json> LayersJson(const std::vector<LayerInfo>& layers, const CacheConfig& config) {
  Json json = Json::array();
  for (size_t i = 0; i < layers.size(); ++i) {
    auto layer = LayerJson(layers[i], static_cast<int>(i), config);
    if (!layer.ok()) return layer.status();
    json.push_back(std::move(*layer));
  }
  return json;
}

int64_t BytesPerToken(const Json& layers) {
  int64_t sum = 0;
  for (const Json& layer : layers) sum += layer["bytes_per_token"].get<int64_t>();
  return sum;
}

void PrintLayers(const Json& layers) {
  std::printf("%5s %-8s %8s %-11s %-11s %-10s %7s %5s %11s %14s\n", "layer", "layout", "window", "k", "v",
              "storage", "heads", "dim", "bytes/token", "planned bytes");
  for (const Json& l : layers) {
    const std::string heads = l["q_heads"].dump() + "/" + l["kv_heads"].dump();
    std::printf("%5d %-8s %8s %-11s %-11s %-10s %7s %5d %11lld %14lld\n", l["layer"].get<int>(),
                l["layout"].get<std::string>().c_str(),
                l.value("window_tokens", Json()).is_null() ? "-" : l["window_tokens"].dump().c_str(),
                l["k_codec"].get<std::string>().c_str(), l["v_codec"].get<std::string>().c_str(),
                l["storage"].get<std::string>().c_str(), heads.c_str(), l["k_dim"].get<int>(),
                static_cast<long long>(l["bytes_per_token"].get<int64_t>()),
                static_cast<long long>(l["planned_bytes"].get<int64_t>()));
  }
}

}  // namespace holdfast::cli
