#include "models/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/status_macros.h"
#include "models/gguf_keys.h"
#include "models/quoted.h"
#include "models/registry.h"

namespace holdfast {
namespace {

// What the file says about itself as a whole.
Status CheckGeneral(const GgufFile& file) {
  const auto where = [&](std::string_view what) {
    return fmt::format("read gguf {}: {}", Quoted(file.path()), what);
  };
  if (file.Has("general.type")) {
    HF_ASSIGN_OR_RETURN(const std::string_view type, file.String("general.type"));
    if (type != "model") {
      return Unimplemented(
          where(fmt::format("key \"general.type\" is {}, supported is \"model\"", Quoted(type))));
    }
  }
  if (file.Has("split.count")) {
    HF_ASSIGN_OR_RETURN(const int64_t parts, file.Int("split.count"));
    if (parts > 1) {
      return Unimplemented(
          where(fmt::format("key \"split.count\" is {}, supported is a model in 1 file", parts)));
    }
  }
  if (file.Has("general.quantization_version")) {
    HF_ASSIGN_OR_RETURN(const int64_t version, file.Int("general.quantization_version"));
    if (version != 2) {
      return Unimplemented(
          where(fmt::format("key \"general.quantization_version\" is {}, supported is 2", version)));
    }
  }
  return OkStatus();
}

Status ReadSizes(const GgufFile& file, GgufKeys& keys, ModelConfig& config) {
  HF_ASSIGN_OR_RETURN(const int64_t layers, keys.Count("block_count", ModelLimits::kMaxLayers));
  HF_ASSIGN_OR_RETURN(config.context_length, keys.Count("context_length", ModelLimits::kMaxContextLength));
  HF_ASSIGN_OR_RETURN(config.hidden_dim, keys.Count("embedding_length", ModelLimits::kMaxHiddenDim));
  HF_ASSIGN_OR_RETURN(config.ffn_dim,
                      keys.UniformCount("feed_forward_length", ModelLimits::kMaxFfnDim, layers));
  HF_ASSIGN_OR_RETURN(const int64_t q_heads,
                      keys.UniformCount("attention.head_count", ModelLimits::kMaxHeads, layers));
  int64_t kv_heads = q_heads;
  if (keys.Has("attention.head_count_kv")) {
    HF_ASSIGN_OR_RETURN(kv_heads,
                        keys.UniformCount("attention.head_count_kv", ModelLimits::kMaxHeads, layers));
  }
  const int64_t even_share = config.hidden_dim / q_heads;
  HF_ASSIGN_OR_RETURN(const int64_t k_dim,
                      keys.CountOr("attention.key_length", ModelLimits::kMaxHeadDim, even_share));
  HF_ASSIGN_OR_RETURN(const int64_t v_dim,
                      keys.CountOr("attention.value_length", ModelLimits::kMaxHeadDim, even_share));
  if (k_dim != v_dim) {
    return Unimplemented(keys.Where(fmt::format(
        "attention.key_length is {} and attention.value_length is {}, supported is one size for both", k_dim,
        v_dim)));
  }
  HF_ASSIGN_OR_RETURN(const int64_t rotary_dim,
                      keys.CountOr("rope.dimension_count", ModelLimits::kMaxHeadDim, k_dim));
  config.layers = static_cast<int>(layers);
  config.q_heads = static_cast<int>(q_heads);
  config.kv_heads = static_cast<int>(kv_heads);
  config.head_dim = static_cast<int>(std::min(k_dim, ModelLimits::kMaxHiddenDim));
  config.rotary_dim = static_cast<int>(rotary_dim);
  const std::string eps_key = keys.Key("attention.layer_norm_rms_epsilon");
  HF_ASSIGN_OR_RETURN(const double eps, file.Float(eps_key));
  config.norm_eps = static_cast<float>(eps);
  return OkStatus();
}

// The vocabulary is what the embedding table has rows for; whatever else counts it must agree.
Status ReadVocabulary(const GgufFile& file, GgufKeys& keys, ModelConfig& config) {
  const GgufTensor* embeddings = file.FindTensor("token_embd.weight");
  if (embeddings == nullptr) return NotFound(keys.Where("tensor \"token_embd.weight\" is missing"));
  config.vocab_size = embeddings->dims[1];
  HF_ASSIGN_OR_RETURN(const int64_t declared,
                      keys.CountOr("vocab_size", ModelLimits::kMaxVocabSize, config.vocab_size));
  if (declared != config.vocab_size) {
    return InvalidArgument(
        keys.Where(fmt::format("key {} is {}, tensor \"token_embd.weight\" has {} rows",
                               Quoted(keys.Key("vocab_size")), declared, config.vocab_size)));
  }
  const GgufValue* tokens = file.Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->elements != config.vocab_size) {
    return InvalidArgument(keys.Where(
        fmt::format("key \"tokenizer.ggml.tokens\" has {} values, tensor \"token_embd.weight\" has {} rows",
                    tokens->elements, config.vocab_size)));
  }
  config.tied_embeddings = file.FindTensor("output.weight") == nullptr;
  return OkStatus();
}

bool HasLayerTensor(const GgufFile& file, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return file.FindTensor(fmt::format("blk.0.{}", name)) != nullptr;
  });
}

void ReadBiases(const GgufFile& file, ModelConfig& config) {
  config.qkv_bias = HasLayerTensor(file, {"attn_q.bias", "attn_k.bias", "attn_v.bias"});
  config.output_bias = HasLayerTensor(file, {"attn_output.bias"});
  config.mlp_bias = HasLayerTensor(file, {"ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"});
}

}  // namespace

Result<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  HF_RETURN_IF_ERROR(CheckGeneral(file));
  HF_ASSIGN_OR_RETURN(const std::string_view architecture, file.String("general.architecture"));
  const ModelFamily* family = FindModelFamily(architecture);
  if (family == nullptr) {
    return Unimplemented(fmt::format("read gguf {}: key \"general.architecture\" is {}, supported are {}",
                                     Quoted(file.path()), Quoted(architecture), ModelFamilyNames()));
  }
  ModelConfig config;
  config.architecture = family->name;
  if (file.Has("general.name")) {
    HF_ASSIGN_OR_RETURN(const std::string_view name, file.String("general.name"));
    config.name = name;
  }
  GgufKeys keys(file, family->name);
  HF_RETURN_IF_ERROR(ReadSizes(file, keys, config));
  HF_RETURN_IF_ERROR(ReadVocabulary(file, keys, config));
  HF_RETURN_IF_ERROR(family->read_gguf(keys, config));
  ReadBiases(file, config);
  HF_RETURN_IF_ERROR(keys.CheckNeutral());
  HF_RETURN_IF_ERROR(keys.CheckAllRead());
  HF_RETURN_IF_ERROR(ValidateModelConfig(config, file.path()));
  return config;
}

}  // namespace holdfast
