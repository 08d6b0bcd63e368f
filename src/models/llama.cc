// The llama family: Llama 2 and 3, SmolLM2, Mistral (Touvron et al. 2023, arXiv:2302.13971).
//
//   x += attention(norm(x));  x += mlp(norm(x))
#include <cmath>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "models/blocks/layer_core.h"
#include "models/decoder_model.h"
#include "models/hf_rope.h"
#include "models/hf_text_model.h"
#include "models/registry.h"

namespace holdfast {
namespace {

constexpr HfDefaults kDefaults{0, 0, 0, 0, 0, 0, 0, 0, false, "hidden_act", "silu"};
constexpr int64_t kMistralDefaultWindow = 4096;
constexpr std::string_view kHfTypes[] = {"llama", "mistral"};
constexpr HfName kHfLayerNames[] = {
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
};

Status ReadGguf(GgufKeys& keys, ModelConfig& config) {
  config.rope_pairing = RopePairing::kInterleaved;  // the converter permutes the rows of q and k so
  config.activation = Activation::kSilu;
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  AttentionLayerConfig layer;
  HF_ASSIGN_OR_RETURN(layer.rope_base, keys.FloatOr("rope.freq_base", 10000.0));
  HF_ASSIGN_OR_RETURN(layer.rope_scaling, keys.ReadRopeScaling());
  if (keys.Has("attention.sliding_window")) {
    HF_ASSIGN_OR_RETURN(const int64_t window, keys.file().Int(keys.Key("attention.sliding_window")));
    if (window != 0) layer.layout = {LayoutId::kWindow, window, 0};
  }
  config.attention.assign(static_cast<size_t>(config.layers), layer);
  return OkStatus();
}

Status ReadHf(std::string_view type, JsonKeys& keys, ModelConfig& config) {
  HF_RETURN_IF_ERROR(ReadHfTextModel(keys, kDefaults, config));
  HF_ASSIGN_OR_RETURN(config.mlp_bias, keys.BoolOr("mlp_bias", false));
  config.activation = Activation::kSilu;
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  HF_ASSIGN_OR_RETURN(const HfRope rope, ReadHfRope(keys, 10000.0, config.context_length));
  AttentionLayerConfig layer{{}, rope.base, rope.scaling};
  if (type == "mistral" && !keys.IsNull("sliding_window")) {  // null: no window
    HF_ASSIGN_OR_RETURN(const int64_t window, keys.CountOr("sliding_window", ModelLimits::kMaxContextLength,
                                                           kMistralDefaultWindow));
    layer.layout = {LayoutId::kWindow, window, 0};
  }
  const bool windowed = layer.layout.id == LayoutId::kWindow;
  HF_RETURN_IF_ERROR(
      ReadHfLayerTypes(keys, config.layers, {windowed ? kHfSlidingAttention : kHfFullAttention}).status());
  config.attention.assign(static_cast<size_t>(config.layers), layer);
  return keys.CheckAllRead(HfHarmlessKeys());
}

struct LlamaLayer {
  LayerCore core;

  static Result<LlamaLayer> Load(const ModelConfig& config, int layer, WeightLoader& loader) {
    HF_ASSIGN_OR_RETURN(LayerCore core, LayerCore::Load(config, layer, QkNorm::kNone, loader));
    return LlamaLayer{std::move(core)};
  }
  Status Run(ForwardPass& pass) const {
    HF_RETURN_IF_ERROR(core.Attend(pass, BlockOutput::kAddToResidual));
    core.FeedForward(pass, BlockOutput::kAddToResidual);
    return OkStatus();
  }
  int64_t bytes() const { return core.bytes(); }
};

Result<std::unique_ptr<Model>> Load(ModelConfig config, WeightLoader& loader, ThreadPool& pool) {
  // Llama 3.1's frequency scaling, as GGUF files carry it.
  HF_ASSIGN_OR_RETURN(const auto freq_factors,
                      loader.OptionalVector("rope_freqs.weight", config.rotary_dim / 2));
  return LoadDecoder<LlamaLayer>(std::move(config), freq_factors, loader, pool);
}

}  // namespace

constinit const ModelFamily kLlamaFamily = {
    .name = "llama",
    .read_gguf = ReadGguf,
    .hf_types = kHfTypes,
    .read_hf = ReadHf,
    .hf_layer_names = kHfLayerNames,
    .hf_left_out = {},
    .chat_format = ChatFormat::kNone,
    .load = Load,
};

}  // namespace holdfast
