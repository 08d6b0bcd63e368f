#include "holdfast/calibrate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "cache/sequence_cache.h"
#include "engine/engine_core.h"

namespace holdfast {
namespace {

// Sums of one layer's rows.
struct LayerSums {
  std::vector<double> k, v;
};

void AddRows(const float* rows, int64_t tokens, std::vector<double>& sums) {
  if (sums.empty()) return;
  for (int64_t t = 0; t < tokens; ++t) {
    for (double& sum : sums) sum += static_cast<double>(*rows++);
  }
}

std::shared_ptr<const std::vector<float>> MeanOf(const std::vector<double>& sums, int64_t tokens) {
  if (sums.empty()) return nullptr;
  std::vector<float> mean;
  for (const double sum : sums) mean.push_back(static_cast<float>(sum / static_cast<double>(tokens)));
  return std::make_shared<const std::vector<float>>(std::move(mean));
}

std::vector<LayerSums> EmptySums(const CacheConfig& config, bool values) {
  std::vector<LayerSums> sums;
  for (const LayerConfig& layer : config.layers) {
    LayerSums& of_layer = sums.emplace_back();
    of_layer.k.resize(static_cast<size_t>(layer.kv_heads * layer.shape.k_dim));
    if (!values || layer.shape.v_is_prefix_of_k) continue;
    of_layer.v.resize(static_cast<size_t>(layer.kv_heads * layer.shape.v_dim));
  }
  return sums;
}

Status CheckOptions(std::span<const int32_t> tokens, const CalibrateOptions& options) {
  if (tokens.empty()) return InvalidArgument("calibrate: 0 tokens, must have at least 1");
  if (options.context_tokens < 1) {
    return InvalidArgument("calibrate: context_tokens is " + std::to_string(options.context_tokens) +
                           ", must be >= 1");
  }
  if (options.chunks < 0) {
    return InvalidArgument("calibrate: chunks is " + std::to_string(options.chunks) + ", must be >= 0");
  }
  if (options.batch_tokens < 1) {
    return InvalidArgument("calibrate: batch_tokens is " + std::to_string(options.batch_tokens) +
                           ", must be >= 1");
  }
  return OkStatus();
}

}  // namespace

Result<KvCenters> Calibrate(Engine& engine, std::span<const int32_t> tokens,
                            const CalibrateOptions& options) {
  auto* core = dynamic_cast<EngineCore*>(&engine);
  if (core == nullptr) return InvalidArgument("calibrate: the engine was not made by Engine::Load");
  HF_RETURN_IF_ERROR(CheckOptions(tokens, options));
  const int64_t context =
      std::min({options.context_tokens, static_cast<int64_t>(tokens.size()), core->info().context_length});
  const int64_t available = static_cast<int64_t>(tokens.size()) / context;
  const int64_t chunks = options.chunks == 0 ? available : std::min(options.chunks, available);

  CacheOptions plain;  // f16
  plain.max_context = context;
  HF_ASSIGN_OR_RETURN(const CacheConfig config, core->MakeCacheConfig(plain));
  HF_ASSIGN_OR_RETURN(auto cache, core->NewCache(config));
  std::vector<LayerSums> sums = EmptySums(config, options.values);
  const KvRowSink add = [&](LayerId layer, int64_t rows, const float* k, const float* v) {
    LayerSums& of_layer = sums[static_cast<size_t>(layer)];
    AddRows(k, rows, of_layer.k);
    AddRows(v, rows, of_layer.v);
  };
  for (int64_t c = 0; c < chunks; ++c) {
    const auto source = tokens.subspan(static_cast<size_t>(c * context), static_cast<size_t>(context));
    std::vector<int32_t> chunk(source.begin(), source.end());
    if (core->adds_bos()) chunk[0] = core->bos_token();
    cache->Clear();
    for (int64_t at = 0; at < context; at += options.batch_tokens) {
      const int64_t count = std::min<int64_t>(options.batch_tokens, context - at);
      const auto batch = std::span(chunk).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
      HF_RETURN_IF_ERROR(core->Evaluate(*cache, batch, {}, nullptr, &add).status());
      if (options.progress) options.progress(c * context + at + count, chunks * context);
    }
  }
  KvCenters centers;
  centers.tokens = chunks * context;
  for (const LayerSums& of_layer : sums) {
    centers.layers.push_back({MeanOf(of_layer.k, centers.tokens), MeanOf(of_layer.v, centers.tokens)});
  }
  return centers;
}

}  // namespace holdfast
