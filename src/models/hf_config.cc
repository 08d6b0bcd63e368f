#include "models/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "models/hf_keys.h"
#include "models/hf_rope.h"
#include "models/json_reader.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

using nlohmann::json;

// What changes no logit of a text model that only runs: bookkeeping, training, generation defaults, tokenizer
// hints.
constexpr std::string_view kHarmless[] = {
    "architectures",
    "attention_dropout",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

// What a multimodal gemma3 has around its text model; the vision half is never run.
constexpr std::string_view kMultimodalHarmless[] = {
    "architectures",       "boi_token_id",    "boi_token_index", "bos_token_id",      "dtype",
    "eoi_token_id",        "eoi_token_index", "image_token_id",  "image_token_index", "initializer_range",
    "mm_tokens_per_image", "model_type",      "pad_token_id",    "torch_dtype",       "transformers_version",
    "unsloth_fixed",       "use_cache",       "vision_config",
};

// Fallbacks are those of the transformers class that reads the same file; 0: the key is required.
struct Defaults {
  int64_t vocab_size, hidden_size, intermediate_size, layers, heads, kv_heads, head_dim, context_length;
  bool tied_embeddings;
  std::string_view activation_key, activation;
};
constexpr Defaults kLlamaDefaults{0, 0, 0, 0, 0, 0, 0, 0, false, "hidden_act", "silu"};
constexpr Defaults kGemma3Defaults{
    262208, 2304, 9216, 26, 8, 4, 256, 131072, true, "hidden_activation", "gelu_pytorch_tanh"};
constexpr int64_t kMistralDefaultWindow = 4096;
constexpr int64_t kGemma3DefaultWindow = 4096;
constexpr int64_t kGemma3WindowPeriod = 6;

Status ReadCount(JsonKeys& keys, std::string_view key, int64_t limit, int64_t fallback, int64_t& out) {
  HF_ASSIGN_OR_RETURN(out, fallback == 0 ? keys.Count(key, limit) : keys.CountOr(key, limit, fallback));
  return OkStatus();
}

Status ReadSizes(JsonKeys& keys, const Defaults& defaults, ModelConfig& config) {
  int64_t layers = 0, heads = 0;
  HF_RETURN_IF_ERROR(
      ReadCount(keys, "vocab_size", ModelLimits::kMaxVocabSize, defaults.vocab_size, config.vocab_size));
  HF_RETURN_IF_ERROR(
      ReadCount(keys, "hidden_size", ModelLimits::kMaxHiddenDim, defaults.hidden_size, config.hidden_dim));
  HF_RETURN_IF_ERROR(ReadCount(keys, "intermediate_size", ModelLimits::kMaxFfnDim, defaults.intermediate_size,
                               config.ffn_dim));
  HF_RETURN_IF_ERROR(ReadCount(keys, "num_hidden_layers", ModelLimits::kMaxLayers, defaults.layers, layers));
  HF_RETURN_IF_ERROR(ReadCount(keys, "num_attention_heads", ModelLimits::kMaxHeads, defaults.heads, heads));
  HF_RETURN_IF_ERROR(ReadCount(keys, "max_position_embeddings", ModelLimits::kMaxContextLength,
                               defaults.context_length, config.context_length));
  HF_ASSIGN_OR_RETURN(const int64_t kv_heads,
                      keys.CountOr("num_key_value_heads", ModelLimits::kMaxHeads,
                                   defaults.kv_heads == 0 ? heads : defaults.kv_heads));
  const int64_t even_share = config.hidden_dim / heads;
  HF_ASSIGN_OR_RETURN(const int64_t head_dim,
                      keys.CountOr("head_dim", ModelLimits::kMaxHeadDim,
                                   defaults.head_dim == 0 ? even_share : defaults.head_dim));
  config.layers = static_cast<int>(layers);
  config.q_heads = static_cast<int>(heads);
  config.kv_heads = static_cast<int>(kv_heads);
  config.head_dim = static_cast<int>(head_dim);
  config.rotary_dim = config.head_dim;
  HF_ASSIGN_OR_RETURN(const double eps, keys.NumberOr("rms_norm_eps", 1e-6));
  config.norm_eps = static_cast<float>(eps);
  return OkStatus();
}

// eos_token_id: one id or a list of them; absent: none.
Status ReadEndTokens(JsonKeys& keys, ModelConfig& config) {
  const json* value = keys.Get("eos_token_id");
  if (value == nullptr) return OkStatus();
  const json list = value->is_array() ? *value : json::array({*value});
  config.end_tokens.clear();
  for (const json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= config.vocab_size) {
      return InvalidArgument(fmt::format("{}: is {}, wanted token ids in [0, {})", keys.Where("eos_token_id"),
                                         Quoted(value->dump(-1, ' ', false, json::error_handler_t::replace)),
                                         config.vocab_size));
    }
    config.end_tokens.push_back(id.get<int32_t>());
  }
  return OkStatus();
}

// What both families have: sizes, biases, the activation, and the refusals.
Status ReadShared(JsonKeys& keys, const Defaults& defaults, ModelConfig& config) {
  HF_RETURN_IF_ERROR(ReadSizes(keys, defaults, config));
  HF_RETURN_IF_ERROR(ReadEndTokens(keys, config));
  HF_ASSIGN_OR_RETURN(config.tied_embeddings, keys.BoolOr("tie_word_embeddings", defaults.tied_embeddings));
  HF_ASSIGN_OR_RETURN(config.qkv_bias, keys.BoolOr("attention_bias", false));
  config.output_bias = config.qkv_bias;
  HF_ASSIGN_OR_RETURN(config.name, keys.StringOr("_name_or_path", ""));
  config.rope_pairing = RopePairing::kHalves;
  HF_RETURN_IF_ERROR(keys.RefuseUnless(defaults.activation_key, std::string(defaults.activation)));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("is_encoder_decoder", false));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("add_cross_attention", false));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("rope_interleaved", false));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("pruned_heads", json::object()));
  return keys.RefuseUnless("use_bidirectional_attention", false);
}

constexpr std::string_view kFullAttention = "full_attention", kSlidingAttention = "sliding_attention";

// The type of every layer, each one of `supported`; nothing where the file names none.
Result<std::vector<std::string>> ReadLayerTypes(JsonKeys& keys, int layers,
                                                std::initializer_list<std::string_view> supported) {
  std::vector<std::string> read;
  const json* types = keys.Get("layer_types");
  if (types == nullptr) return read;
  if (!types->is_array() || types->size() != static_cast<size_t>(layers)) {
    return InvalidArgument(
        keys.Where(fmt::format("key \"layer_types\" is not an array of {} values, one a layer", layers)));
  }
  for (const json& type : *types) {
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    if (std::find(supported.begin(), supported.end(), name) == supported.end()) {
      return Unimplemented(keys.Where(fmt::format("key \"layer_types\" is {} at layer {}, supported is {}",
                                                  type.is_string() ? Quoted(name) : JsonTypeName(type),
                                                  read.size(), fmt::join(supported, " and "))));
    }
    read.push_back(name);
  }
  return read;
}

Status ReadLlama(JsonKeys& keys, const json& object, bool is_mistral, ModelConfig& config) {
  config.architecture = "llama";
  HF_RETURN_IF_ERROR(ReadShared(keys, kLlamaDefaults, config));
  HF_ASSIGN_OR_RETURN(config.mlp_bias, keys.BoolOr("mlp_bias", false));
  config.activation = Activation::kSilu;
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  HF_ASSIGN_OR_RETURN(const HfRope rope, ReadHfRope(keys, 10000.0, config.context_length));
  AttentionLayerConfig layer{{}, rope.base, rope.scaling};
  if (is_mistral && (!object.contains("sliding_window") || keys.Has("sliding_window"))) {  // null: no window
    HF_ASSIGN_OR_RETURN(const int64_t window, keys.CountOr("sliding_window", ModelLimits::kMaxContextLength,
                                                           kMistralDefaultWindow));
    layer.layout = {LayoutId::kWindow, window, 0};
  }
  const bool windowed = layer.layout.id == LayoutId::kWindow;
  HF_RETURN_IF_ERROR(
      ReadLayerTypes(keys, config.layers, {windowed ? kSlidingAttention : kFullAttention}).status());
  config.attention.assign(static_cast<size_t>(config.layers), layer);
  return keys.CheckAllRead(kHarmless);
}

// true for layers that see a window: layer_types, or all but every sliding_window_pattern-th.
Result<std::vector<bool>> ReadGemma3LayerTypes(JsonKeys& keys, int layers) {
  std::vector<bool> windowed(static_cast<size_t>(layers));
  HF_ASSIGN_OR_RETURN(const int64_t period,
                      keys.CountOr("sliding_window_pattern", ModelLimits::kMaxLayers, kGemma3WindowPeriod));
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                      ReadLayerTypes(keys, layers, {kFullAttention, kSlidingAttention}));
  for (size_t i = 0; i < windowed.size(); ++i) {
    windowed[i] = types.empty() ? (i + 1) % static_cast<size_t>(period) != 0 : types[i] == kSlidingAttention;
  }
  return windowed;
}

Status ReadGemma3(JsonKeys& keys, const json& object, ModelConfig& config) {
  config.architecture = "gemma3";
  HF_RETURN_IF_ERROR(ReadShared(keys, kGemma3Defaults, config));
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
  HF_ASSIGN_OR_RETURN(const std::vector<bool> windowed, ReadGemma3LayerTypes(keys, config.layers));
  if (object.contains("sliding_window") && !keys.Has("sliding_window")) {
    return InvalidArgument(
        keys.Where("key \"sliding_window\" is null, wanted the window of the sliding layers"));
  }
  HF_ASSIGN_OR_RETURN(const int64_t window,
                      keys.CountOr("sliding_window", ModelLimits::kMaxContextLength, kGemma3DefaultWindow));
  const AttentionLayerConfig full{{}, rope.full.base, rope.full.scaling};
  const AttentionLayerConfig sliding{{LayoutId::kWindow, window, 0}, rope.sliding.base, rope.sliding.scaling};
  for (const bool is_sliding : windowed) config.attention.push_back(is_sliding ? sliding : full);
  return keys.CheckAllRead(kHarmless);
}

// gemma3 with its text model in text_config.
Status ReadMultimodalGemma3(JsonKeys& outer, ModelConfig& config) {
  const json* text = outer.Get("text_config");
  if (text == nullptr || !text->is_object())
    return InvalidArgument(outer.Where("key \"text_config\" is not an object"));
  JsonKeys keys(*text, outer.Where("text_config"));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("model_type", "gemma3_text"));
  HF_RETURN_IF_ERROR(ReadGemma3(keys, *text, config));
  HF_RETURN_IF_ERROR(ReadEndTokens(outer, config));
  HF_ASSIGN_OR_RETURN(config.tied_embeddings, outer.BoolOr("tie_word_embeddings", config.tied_embeddings));
  return outer.CheckAllRead(kMultimodalHarmless);
}

}  // namespace

Result<ModelConfig> ParseHfConfig(std::string_view text, const std::string& label) {
  const std::string where = fmt::format("read model config {}", Quoted(label));
  const JsonLimits limits{.max_bytes = 4 << 20, .max_depth = 16, .max_values = 1 << 16};
  HF_ASSIGN_OR_RETURN(const json root, ParseJson(text, limits, where));
  if (!root.is_object())
    return DataLoss(fmt::format("{}: is of type {}, wanted object", where, JsonTypeName(root)));
  JsonKeys keys(root, where);
  HF_ASSIGN_OR_RETURN(const std::string type, keys.StringOr("model_type", ""));
  ModelConfig config;
  if (type == "llama" || type == "mistral") {
    HF_RETURN_IF_ERROR(ReadLlama(keys, root, type == "mistral", config));
  } else if (type == "gemma3_text") {
    HF_RETURN_IF_ERROR(ReadGemma3(keys, root, config));
  } else if (type == "gemma3") {
    HF_RETURN_IF_ERROR(ReadMultimodalGemma3(keys, config));
  } else {
    return Unimplemented(
        fmt::format("{}: key \"model_type\" is {}, supported are llama, mistral, gemma3_text and gemma3",
                    where, Quoted(type)));
  }
  HF_RETURN_IF_ERROR(ValidateModelConfig(config, label));
  return config;
}

Result<ModelConfig> ReadHfConfig(const std::string& folder) {
  const std::string path = folder + "/config.json";
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file->bytes();
  return ParseHfConfig({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace holdfast
