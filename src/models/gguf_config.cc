#include "models/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/status_macros.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

// Keys under the architecture's prefix that say nothing about the mathematics. What `rope.scaling` has of
// YaRN matters only where rope.scaling.type says yarn, which is refused.
constexpr std::string_view kHarmless[] = {"tensor_data_layout", "rope.scaling.original_context_length",
                                          "rope.scaling.finetuned"};

// Keys that do change it, and that are fine at the value that leaves it as it is.
struct Neutral {
  std::string_view key;
  double value;
};
constexpr Neutral kNeutral[] = {
    {"expert_count", 0},      {"expert_used_count", 0},   {"use_parallel_residual", 0},
    {"attention.causal", 1},  {"attention.clamp_kqv", 0}, {"attention.max_alibi_bias", 0},
    {"logit_scale", 1},       {"residual_scale", 1},      {"rope.scaling.attn_factor", 1},
    {"rope.scale_linear", 1}, {"pooling_type", 0},
};

// Gemma 3's largest text model scales attention by its hidden size; no key says so, its depth does (as
// llama.cpp has it).
constexpr int kGemma3LargestLayers = 62;
constexpr int64_t kGemma3WindowPeriod = 6;
constexpr double kGemma3LocalRopeBase = 10000.0;

// Reads keys of one architecture and remembers which, so that the rest can be refused by name.
class KeyReader {
 public:
  KeyReader(const GgufFile& file, std::string architecture)
      : file_(file), prefix_(std::move(architecture) + ".") {}

  std::string Where(std::string_view what) const {
    return fmt::format("read gguf {}: {}", Quoted(file_.path()), what);
  }
  std::string Key(std::string_view suffix) {
    read_.insert(prefix_ + std::string(suffix));
    return prefix_ + std::string(suffix);
  }
  bool Has(std::string_view suffix) const { return file_.Has(prefix_ + std::string(suffix)); }

  // An integer from 1 to limit.
  Result<int64_t> Count(std::string_view suffix, int64_t limit) {
    const std::string key = Key(suffix);
    HF_ASSIGN_OR_RETURN(const int64_t value, file_.Int(key));
    return CheckCount(key, value, limit);
  }
  Result<int64_t> CountOr(std::string_view suffix, int64_t limit, int64_t fallback) {
    return Has(suffix) ? Count(suffix, limit) : Result<int64_t>(fallback);
  }
  Result<double> FloatOr(std::string_view suffix, double fallback) {
    const std::string key = Key(suffix);
    return file_.Has(key) ? file_.Float(key) : Result<double>(fallback);
  }
  // A count, or one per layer that are all the same.
  Result<int64_t> UniformCount(std::string_view suffix, int64_t limit, int64_t layers);

  Status CheckNeutral();
  // Errors: kUnimplemented naming a key of the architecture that nobody has read.
  Status CheckAllRead() const;

 private:
  Result<int64_t> CheckCount(const std::string& key, int64_t value, int64_t limit) const {
    if (value >= 1 && value <= limit) return value;
    return OutOfRange(Where(fmt::format("key {} is {}, the limits are 1 and {}", Quoted(key), value, limit)));
  }

  const GgufFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

Result<int64_t> KeyReader::UniformCount(std::string_view suffix, int64_t limit, int64_t layers) {
  const std::string key = Key(suffix);
  const GgufValue* value = file_.Find(key);
  if (value == nullptr || value->type != GgufType::kArray) return Count(suffix, limit);
  HF_ASSIGN_OR_RETURN(const std::vector<int64_t> counts, file_.Ints(key));
  if (counts.size() != static_cast<size_t>(layers)) {
    return InvalidArgument(
        Where(fmt::format("key {} has {} values, there are {} layers", Quoted(key), counts.size(), layers)));
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == counts[0]) continue;
    return Unimplemented(
        Where(fmt::format("key {} is {} at layer {} and {} at layer 0, supported is one value for all",
                          Quoted(key), counts[i], i, counts[0])));
  }
  return CheckCount(key, counts[0], limit);
}

Status KeyReader::CheckNeutral() {
  for (const Neutral& neutral : kNeutral) {
    if (!Has(neutral.key)) continue;
    const std::string key = Key(neutral.key);
    double found = 0;
    const GgufType type = file_.Find(key)->type;
    if (type == GgufType::kBool) {
      HF_ASSIGN_OR_RETURN(const bool value, file_.Bool(key));
      found = value ? 1 : 0;
    } else if (type == GgufType::kFloat32 || type == GgufType::kFloat64) {
      HF_ASSIGN_OR_RETURN(found, file_.Float(key));
    } else {
      HF_ASSIGN_OR_RETURN(const int64_t value, file_.Int(key));
      found = static_cast<double>(value);
    }
    if (found != neutral.value) {
      return Unimplemented(
          Where(fmt::format("key {} is {}, supported is {}", Quoted(key), found, neutral.value)));
    }
  }
  return OkStatus();
}

Status KeyReader::CheckAllRead() const {
  for (const GgufValue& value : file_.metadata()) {
    if (!value.key.starts_with(prefix_) || read_.contains(value.key)) continue;
    const std::string_view suffix = value.key.substr(prefix_.size());
    if (std::find(std::begin(kHarmless), std::end(kHarmless), suffix) != std::end(kHarmless)) continue;
    return Unimplemented(Where(fmt::format("key {} is not known to this architecture", Quoted(value.key))));
  }
  return OkStatus();
}

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

Status ReadSizes(const GgufFile& file, KeyReader& keys, ModelConfig& config) {
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
Status ReadVocabulary(const GgufFile& file, KeyReader& keys, ModelConfig& config) {
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

Result<RopeScaling> ReadRopeScaling(const GgufFile& file, KeyReader& keys) {
  RopeScaling scaling;
  std::string_view type = "linear";  // what llama.cpp assumes where only a factor is given
  const std::string type_key = keys.Key("rope.scaling.type");
  if (file.Has(type_key)) {
    HF_ASSIGN_OR_RETURN(type, file.String(type_key));
  }
  if (type != "none" && type != "linear") {
    return Unimplemented(keys.Where(
        fmt::format("key {} is {}, supported are \"none\" and \"linear\"", Quoted(type_key), Quoted(type))));
  }
  HF_ASSIGN_OR_RETURN(const double factor, keys.FloatOr("rope.scaling.factor", 1.0));
  if (type == "linear" && factor != 0.0 && factor != 1.0) {  // 0 stands for none in these files
    scaling.kind = RopeScaling::Kind::kLinear;
    scaling.factor = factor;
  }
  return scaling;
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

Status ReadLlama(const GgufFile& file, KeyReader& keys, ModelConfig& config) {
  config.rope_pairing = RopePairing::kInterleaved;  // the converter permutes the rows of q and k so
  config.activation = Activation::kSilu;
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  AttentionLayerConfig layer;
  HF_ASSIGN_OR_RETURN(layer.rope_base, keys.FloatOr("rope.freq_base", 10000.0));
  HF_ASSIGN_OR_RETURN(layer.rope_scaling, ReadRopeScaling(file, keys));
  if (keys.Has("attention.sliding_window")) {
    HF_ASSIGN_OR_RETURN(const int64_t window, file.Int(keys.Key("attention.sliding_window")));
    if (window != 0) layer.layout = {LayoutId::kWindow, window, 0};
  }
  config.attention.assign(static_cast<size_t>(config.layers), layer);
  return OkStatus();
}

// true for layers that see a window: all but every `period`th, or as an array of bools says.
Result<std::vector<bool>> ReadWindowPattern(const GgufFile& file, KeyReader& keys, int layers) {
  std::vector<bool> windowed(static_cast<size_t>(layers));
  const std::string key = keys.Key("attention.sliding_window_pattern");
  const GgufValue* value = file.Find(key);
  if (value != nullptr && value->type == GgufType::kArray) {
    HF_ASSIGN_OR_RETURN(const std::vector<int64_t> flags, file.Ints(key));
    if (flags.size() != windowed.size()) {
      return InvalidArgument(keys.Where(
          fmt::format("key {} has {} values, there are {} layers", Quoted(key), flags.size(), layers)));
    }
    std::transform(flags.begin(), flags.end(), windowed.begin(), [](int64_t flag) { return flag != 0; });
    return windowed;
  }
  HF_ASSIGN_OR_RETURN(const int64_t period, keys.CountOr("attention.sliding_window_pattern",
                                                         ModelLimits::kMaxLayers, kGemma3WindowPeriod));
  for (size_t i = 0; i < windowed.size(); ++i) windowed[i] = (i + 1) % static_cast<size_t>(period) != 0;
  return windowed;
}

Status ReadGemma3(const GgufFile& file, KeyReader& keys, ModelConfig& config) {
  config.rope_pairing = RopePairing::kHalves;
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_dim));
  const double scaled_dim = config.layers == kGemma3LargestLayers
                                ? static_cast<double>(config.hidden_dim) / static_cast<double>(config.q_heads)
                                : static_cast<double>(config.head_dim);
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scaled_dim));
  HF_ASSIGN_OR_RETURN(const double attention_softcap, keys.FloatOr("attn_logit_softcapping", 0.0));
  HF_ASSIGN_OR_RETURN(const double final_softcap, keys.FloatOr("final_logit_softcapping", 0.0));
  config.attention_softcap = static_cast<float>(attention_softcap);
  config.final_softcap = static_cast<float>(final_softcap);

  AttentionLayerConfig global, local;
  HF_ASSIGN_OR_RETURN(global.rope_base, file.Float(keys.Key("rope.freq_base")));
  HF_ASSIGN_OR_RETURN(global.rope_scaling, ReadRopeScaling(file, keys));
  HF_ASSIGN_OR_RETURN(local.rope_base, keys.FloatOr("rope.freq_base_swa", kGemma3LocalRopeBase));
  HF_ASSIGN_OR_RETURN(const int64_t window,
                      keys.Count("attention.sliding_window", ModelLimits::kMaxContextLength));
  local.layout = {LayoutId::kWindow, window, 0};
  HF_ASSIGN_OR_RETURN(const std::vector<bool> windowed, ReadWindowPattern(file, keys, config.layers));
  for (const bool is_local : windowed) config.attention.push_back(is_local ? local : global);
  return OkStatus();
}

}  // namespace

Result<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  HF_RETURN_IF_ERROR(CheckGeneral(file));
  HF_ASSIGN_OR_RETURN(const std::string_view architecture, file.String("general.architecture"));
  if (architecture != "llama" && architecture != "gemma3") {
    return Unimplemented(
        fmt::format("read gguf {}: key \"general.architecture\" is {}, supported are llama and gemma3",
                    Quoted(file.path()), Quoted(architecture)));
  }
  ModelConfig config;
  config.architecture = architecture;
  if (file.Has("general.name")) {
    HF_ASSIGN_OR_RETURN(const std::string_view name, file.String("general.name"));
    config.name = name;
  }
  KeyReader keys(file, config.architecture);
  HF_RETURN_IF_ERROR(ReadSizes(file, keys, config));
  HF_RETURN_IF_ERROR(ReadVocabulary(file, keys, config));
  HF_RETURN_IF_ERROR(architecture == "llama" ? ReadLlama(file, keys, config)
                                             : ReadGemma3(file, keys, config));
  ReadBiases(file, config);
  HF_RETURN_IF_ERROR(keys.CheckNeutral());
  HF_RETURN_IF_ERROR(keys.CheckAllRead());
  HF_RETURN_IF_ERROR(ValidateModelConfig(config, file.path()));
  return config;
}

}  // namespace holdfast
