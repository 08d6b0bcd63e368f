// The gemma3 family's text model (Gemma 3 technical report, arXiv:2503.19786).
//
//   x += post_norm(attention(norm(x)));  x += post_norm(mlp(norm(x)))
// with norms of each q and k head, windows in five layers of six, and a RoPE base of their own there; both
// are the config's per-layer settings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "models/blocks/layer_core.h"
#include "models/decoder_model.h"
#include "models/hf_rope.h"
#include "models/hf_text_model.h"
#include "models/quoted.h"
#include "models/registry.h"

namespace holdfast {
namespace {

// The largest text model scales attention by its hidden size; no GGUF key says so, its depth does (as
// llama.cpp has it).
constexpr int kLargestLayers = 62;
constexpr int64_t kWindowPeriod = 6;
constexpr double kLocalRopeBase = 10000.0;

constexpr HfDefaults kDefaults{
    262208, 2304, 9216, 26, 8, 4, 256, 131072, true, "hidden_activation", "gelu_pytorch_tanh"};
constexpr int64_t kDefaultWindow = 4096;
constexpr std::string_view kHfTypes[] = {"gemma3_text", "gemma3"};
// What a multimodal gemma3 has around its text model; the vision half is never run.
constexpr std::string_view kMultimodalHarmless[] = {
    "architectures",       "boi_token_id",    "boi_token_index", "bos_token_id",      "dtype",
    "eoi_token_id",        "eoi_token_index", "image_token_id",  "image_token_index", "initializer_range",
    "mm_tokens_per_image", "model_type",      "pad_token_id",    "torch_dtype",       "transformers_version",
    "unsloth_fixed",       "use_cache",       "vision_config",
};

constexpr std::string_view kVisionPrefixes[] = {"vision_tower.", "model.vision_tower.",
                                                "multi_modal_projector.", "model.multi_modal_projector."};
constexpr HfName kHfLayerNames[] = {
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
};

// true for layers that see a window: all but every `period`th, or as an array of bools says.
Result<std::vector<bool>> ReadGgufPattern(GgufKeys& keys, int layers) {
  std::vector<bool> windowed(static_cast<size_t>(layers));
  const std::string key = keys.Key("attention.sliding_window_pattern");
  const GgufValue* value = keys.file().Find(key);
  if (value != nullptr && value->type == GgufType::kArray) {
    HF_ASSIGN_OR_RETURN(const std::vector<int64_t> flags, keys.file().Ints(key));
    if (flags.size() != windowed.size()) {
      return InvalidArgument(keys.Where(
          fmt::format("key {} has {} values, there are {} layers", Quoted(key), flags.size(), layers)));
    }
    std::transform(flags.begin(), flags.end(), windowed.begin(), [](int64_t flag) { return flag != 0; });
    return windowed;
  }
  HF_ASSIGN_OR_RETURN(const int64_t period, keys.CountOr("attention.sliding_window_pattern",
                                                         ModelLimits::kMaxLayers, kWindowPeriod));
  for (size_t i = 0; i < windowed.size(); ++i) windowed[i] = (i + 1) % static_cast<size_t>(period) != 0;
  return windowed;
}

Status ReadGguf(GgufKeys& keys, ModelConfig& config) {
  config.rope_pairing = RopePairing::kHalves;
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_dim));
  const double scaled_dim = config.layers == kLargestLayers
                                ? static_cast<double>(config.hidden_dim) / static_cast<double>(config.q_heads)
                                : static_cast<double>(config.head_dim);
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scaled_dim));
  HF_ASSIGN_OR_RETURN(const double attention_softcap, keys.FloatOr("attn_logit_softcapping", 0.0));
  HF_ASSIGN_OR_RETURN(const double final_softcap, keys.FloatOr("final_logit_softcapping", 0.0));
  config.attention_softcap = static_cast<float>(attention_softcap);
  config.final_softcap = static_cast<float>(final_softcap);

  AttentionLayerConfig global, local;
  HF_ASSIGN_OR_RETURN(global.rope_base, keys.file().Float(keys.Key("rope.freq_base")));
  HF_ASSIGN_OR_RETURN(global.rope_scaling, keys.ReadRopeScaling());
  HF_ASSIGN_OR_RETURN(local.rope_base, keys.FloatOr("rope.freq_base_swa", kLocalRopeBase));
  HF_ASSIGN_OR_RETURN(const int64_t window,
                      keys.Count("attention.sliding_window", ModelLimits::kMaxContextLength));
  local.layout = {LayoutId::kWindow, window, 0};
  HF_ASSIGN_OR_RETURN(const std::vector<bool> windowed, ReadGgufPattern(keys, config.layers));
  for (const bool is_local : windowed) config.attention.push_back(is_local ? local : global);
  return OkStatus();
}

// true for layers that see a window: layer_types, or all but every sliding_window_pattern-th.
Result<std::vector<bool>> ReadHfPattern(JsonKeys& keys, int layers) {
  std::vector<bool> windowed(static_cast<size_t>(layers));
  HF_ASSIGN_OR_RETURN(const int64_t period,
                      keys.CountOr("sliding_window_pattern", ModelLimits::kMaxLayers, kWindowPeriod));
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                      ReadHfLayerTypes(keys, layers, {kHfFullAttention, kHfSlidingAttention}));
  for (size_t i = 0; i < windowed.size(); ++i) {
    windowed[i] =
        types.empty() ? (i + 1) % static_cast<size_t>(period) != 0 : types[i] == kHfSlidingAttention;
  }
  return windowed;
}

Status ReadHfText(JsonKeys& keys, ModelConfig& config) {
  HF_RETURN_IF_ERROR(ReadHfTextModel(keys, kDefaults, config));
  config.activation = Activation::kGeluTanh;
  config.norm_weight_plus_one = true;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_dim));
  HF_ASSIGN_OR_RETURN(const double query_scalar, keys.NumberOr("query_pre_attn_scalar", 256.0));
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(query_scalar));
  HF_ASSIGN_OR_RETURN(const double attention_softcap, keys.NumberOr("attn_logit_softcapping", 0.0));
  HF_ASSIGN_OR_RETURN(const double final_softcap, keys.NumberOr("final_logit_softcapping", 0.0));
  config.attention_softcap = static_cast<float>(attention_softcap);
  config.final_softcap = static_cast<float>(final_softcap);
  HF_ASSIGN_OR_RETURN(const HfLayeredRope rope, ReadHfLayeredRope(keys, 1e6, 1e4, config.context_length));
  HF_ASSIGN_OR_RETURN(const std::vector<bool> windowed, ReadHfPattern(keys, config.layers));
  if (keys.IsNull("sliding_window")) {
    return InvalidArgument(
        keys.Where("key \"sliding_window\" is null, wanted the window of the sliding layers"));
  }
  HF_ASSIGN_OR_RETURN(const int64_t window,
                      keys.CountOr("sliding_window", ModelLimits::kMaxContextLength, kDefaultWindow));
  const AttentionLayerConfig full{{}, rope.full.base, rope.full.scaling};
  const AttentionLayerConfig sliding{{LayoutId::kWindow, window, 0}, rope.sliding.base, rope.sliding.scaling};
  for (const bool is_sliding : windowed) config.attention.push_back(is_sliding ? sliding : full);
  return keys.CheckAllRead(HfHarmlessKeys());
}

// gemma3 with its text model in text_config.
Status ReadHfMultimodal(JsonKeys& outer, ModelConfig& config) {
  const nlohmann::json* text = outer.Get("text_config");
  if (text == nullptr || !text->is_object())
    return InvalidArgument(outer.Where("key \"text_config\" is not an object"));
  JsonKeys keys(*text, outer.Where("text_config"));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("model_type", "gemma3_text"));
  HF_RETURN_IF_ERROR(ReadHfText(keys, config));
  HF_RETURN_IF_ERROR(ReadHfEndTokens(outer, config));
  HF_ASSIGN_OR_RETURN(config.tied_embeddings, outer.BoolOr("tie_word_embeddings", config.tied_embeddings));
  return outer.CheckAllRead(kMultimodalHarmless);
}

Status ReadHf(std::string_view type, JsonKeys& keys, ModelConfig& config) {
  return type == "gemma3" ? ReadHfMultimodal(keys, config) : ReadHfText(keys, config);
}

struct Gemma3Layer {
  LayerCore core;
  Norm attention_post_norm;
  Norm mlp_post_norm;

  static Result<Gemma3Layer> Load(const ModelConfig& config, int layer, WeightLoader& loader) {
    HF_ASSIGN_OR_RETURN(LayerCore core, LayerCore::Load(config, layer, QkNorm::kPerHead, loader));
    HF_ASSIGN_OR_RETURN(Norm attention_post_norm,
                        LoadLayerNorm(config, layer, "post_attention_norm.weight", loader));
    HF_ASSIGN_OR_RETURN(Norm mlp_post_norm, LoadLayerNorm(config, layer, "post_ffw_norm.weight", loader));
    return Gemma3Layer{std::move(core), std::move(attention_post_norm), std::move(mlp_post_norm)};
  }
  Status Run(ForwardPass& pass) const {
    ForwardScratch& s = pass.scratch;
    HF_RETURN_IF_ERROR(core.Attend(pass, BlockOutput::kBranch));
    attention_post_norm.AddTo(pass, s.branch(), pass.rows(), s.residual());
    core.FeedForward(pass, BlockOutput::kBranch);
    mlp_post_norm.AddTo(pass, s.branch(), pass.rows(), s.residual());
    return OkStatus();
  }
  int64_t bytes() const { return core.bytes() + attention_post_norm.bytes() + mlp_post_norm.bytes(); }
};

Result<std::unique_ptr<Model>> Load(ModelConfig config, WeightLoader& loader, ThreadPool& pool) {
  return LoadDecoder<Gemma3Layer>(std::move(config), {}, loader, pool);
}

}  // namespace

constinit const ModelFamily kGemma3Family = {
    .name = "gemma3",
    .read_gguf = ReadGguf,
    .hf_types = kHfTypes,
    .read_hf = ReadHf,
    .hf_layer_names = kHfLayerNames,
    .hf_left_out = kVisionPrefixes,
    .chat_format = ChatFormat::kGemma,
    .load = Load,
};

}  // namespace holdfast
