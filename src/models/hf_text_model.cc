#include "models/hf_text_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/status_macros.h"
#include "models/json_reader.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

using nlohmann::json;

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

Status ReadCount(JsonKeys& keys, std::string_view key, int64_t limit, int64_t fallback, int64_t& out) {
  HF_ASSIGN_OR_RETURN(out, fallback == 0 ? keys.Count(key, limit) : keys.CountOr(key, limit, fallback));
  return OkStatus();
}

Status ReadSizes(JsonKeys& keys, const HfDefaults& defaults, ModelConfig& config) {
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

}  // namespace

Status ReadHfEndTokens(JsonKeys& keys, ModelConfig& config) {
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

Status ReadHfTextModel(JsonKeys& keys, const HfDefaults& defaults, ModelConfig& config) {
  HF_RETURN_IF_ERROR(ReadSizes(keys, defaults, config));
  HF_RETURN_IF_ERROR(ReadHfEndTokens(keys, config));
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

Result<std::vector<std::string>> ReadHfLayerTypes(JsonKeys& keys, int layers,
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

std::span<const std::string_view> HfHarmlessKeys() {
  return kHarmless;
}

}  // namespace holdfast
