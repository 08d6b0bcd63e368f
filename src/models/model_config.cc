#include "models/model_config.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

Status CheckRange(const std::string& path, std::string_view field, int64_t value, int64_t limit) {
  if (value >= 1 && value <= limit) return OkStatus();
  return OutOfRange(
      fmt::format("read model {}: {} is {}, the limits are 1 and {}", Quoted(path), field, value, limit));
}

Status CheckLayer(const ModelConfig& config, const std::string& path, size_t layer) {
  const AttentionLayerConfig& attention = config.attention[layer];
  const auto field = [&](std::string_view name) { return fmt::format("{} of layer {}", name, layer); };
  if (!(attention.rope_base > 1.0 && attention.rope_base <= ModelLimits::kMaxRopeBase)) {
    return OutOfRange(fmt::format("read model {}: {} is {}, the limits are above 1 and {}", Quoted(path),
                                  field("RoPE base"), attention.rope_base, ModelLimits::kMaxRopeBase));
  }
  const RopeScaling& scaling = attention.rope_scaling;
  if (!(scaling.factor >= 1.0 && scaling.factor <= ModelLimits::kMaxRopeFactor)) {
    return OutOfRange(fmt::format("read model {}: {} is {}, the limits are 1 and {}", Quoted(path),
                                  field("RoPE scaling factor"), scaling.factor, ModelLimits::kMaxRopeFactor));
  }
  if (scaling.kind == RopeScaling::Kind::kLlama3) {
    if (!(scaling.low_freq_factor > 0.0 && scaling.high_freq_factor > scaling.low_freq_factor &&
          scaling.high_freq_factor <= ModelLimits::kMaxRopeFactor)) {
      return OutOfRange(fmt::format("read model {}: {} are {} and {}, wanted 0 < low < high <= {}",
                                    Quoted(path), field("RoPE low and high frequency factors"),
                                    scaling.low_freq_factor, scaling.high_freq_factor,
                                    ModelLimits::kMaxRopeFactor));
    }
    HF_RETURN_IF_ERROR(CheckRange(path, field("RoPE original context"), scaling.original_max_position,
                                  ModelLimits::kMaxContextLength));
  }
  if (attention.layout.id == LayoutId::kWindow) {
    return CheckRange(path, field("attention window"), attention.layout.window_tokens,
                      ModelLimits::kMaxContextLength);
  }
  return OkStatus();
}

Status CheckFloats(const ModelConfig& config, const std::string& path) {
  const auto check = [&](std::string_view field, float value, float low, float high) {
    if (value >= low && value <= high) return OkStatus();
    return OutOfRange(fmt::format("read model {}: {} is {}, the limits are {} and {}", Quoted(path), field,
                                  value, low, high));
  };
  HF_RETURN_IF_ERROR(check("norm epsilon", config.norm_eps, 1e-12f, 0.1f));
  HF_RETURN_IF_ERROR(check("attention scale", config.attention_scale, 1e-6f, 1e3f));
  HF_RETURN_IF_ERROR(check("embedding scale", config.embedding_scale, 1e-6f, 1e6f));
  HF_RETURN_IF_ERROR(check("attention softcap", config.attention_softcap, 0.0f, 1e6f));
  return check("final softcap", config.final_softcap, 0.0f, 1e6f);
}

}  // namespace

Status ValidateModelConfig(const ModelConfig& config, const std::string& path) {
  HF_RETURN_IF_ERROR(CheckRange(path, "vocabulary size", config.vocab_size, ModelLimits::kMaxVocabSize));
  HF_RETURN_IF_ERROR(CheckRange(path, "hidden size", config.hidden_dim, ModelLimits::kMaxHiddenDim));
  HF_RETURN_IF_ERROR(CheckRange(path, "feed-forward size", config.ffn_dim, ModelLimits::kMaxFfnDim));
  HF_RETURN_IF_ERROR(
      CheckRange(path, "context length", config.context_length, ModelLimits::kMaxContextLength));
  HF_RETURN_IF_ERROR(CheckRange(path, "layer count", config.layers, ModelLimits::kMaxLayers));
  HF_RETURN_IF_ERROR(CheckRange(path, "query head count", config.q_heads, ModelLimits::kMaxHeads));
  HF_RETURN_IF_ERROR(CheckRange(path, "KV head count", config.kv_heads, ModelLimits::kMaxHeads));
  HF_RETURN_IF_ERROR(CheckRange(path, "head size", config.head_dim, ModelLimits::kMaxHeadDim));
  HF_RETURN_IF_ERROR(CheckRange(path, "RoPE dimension count", config.rotary_dim, config.head_dim));
  if (config.q_heads % config.kv_heads != 0) {
    return InvalidArgument(
        fmt::format("read model {}: query head count is {}, not a multiple of the {} KV heads", Quoted(path),
                    config.q_heads, config.kv_heads));
  }
  if (config.rotary_dim % 2 != 0) {
    return InvalidArgument(fmt::format("read model {}: RoPE dimension count is {}, wanted an even one",
                                       Quoted(path), config.rotary_dim));
  }
  HF_RETURN_IF_ERROR(CheckFloats(config, path));
  if (config.attention.size() != static_cast<size_t>(config.layers)) {
    return InvalidArgument(fmt::format("read model {}: attention is described for {} layers, there are {}",
                                       Quoted(path), config.attention.size(), config.layers));
  }
  for (size_t layer = 0; layer < config.attention.size(); ++layer)
    HF_RETURN_IF_ERROR(CheckLayer(config, path, layer));
  return OkStatus();
}

}  // namespace holdfast
