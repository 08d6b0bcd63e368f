// What a model file says about its mathematics, in one form for every file format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/cache_config.h"
#include "ops/elementwise.h"

namespace holdfast {

// Limits on what a file may claim about a model; a refusal names the field, the value and the limit.
struct ModelLimits {
  static constexpr int64_t kMaxLayers = 1024;
  static constexpr int64_t kMaxHeads = 1024;
  static constexpr int64_t kMaxHeadDim = 1024;
  static constexpr int64_t kMaxHiddenDim = 1 << 18;
  static constexpr int64_t kMaxFfnDim = 1 << 20;
  static constexpr int64_t kMaxVocabSize = 1 << 22;
  static constexpr int64_t kMaxContextLength = int64_t{1} << 28;
  static constexpr double kMaxRopeBase = 1e12;
  static constexpr double kMaxRopeFactor = 1e6;
};

// Per-layer attention: which positions, which RoPE.
struct AttentionLayerConfig {
  LayoutConfig layout;
  double rope_base = 10000.0;
  RopeScaling rope_scaling;
};

// Read from a file it is complete and within ModelLimits. A family implements every field or refuses it by
// name.
struct ModelConfig {
  std::string architecture;  // family's registry name: "llama", "gemma3"
  std::string name;          // what the file calls itself; for people
  int64_t vocab_size = 0, hidden_dim = 0, ffn_dim = 0, context_length = 0;
  int layers = 0, q_heads = 0, kv_heads = 0, head_dim = 0, rotary_dim = 0;
  float norm_eps = 1e-5f;
  // tied_embeddings: logits are products with token_embd.weight, and there is no output.weight.
  bool tied_embeddings = false, qkv_bias = false, output_bias = false, mlp_bias = false;
  RopePairing rope_pairing = RopePairing::kHalves;
  Activation activation = Activation::kSilu;
  float attention_scale = 0.0f;  // multiplies <q, k>
  float embedding_scale = 1.0f;  // gemma: sqrt(hidden_dim) in f32, as the f32 reference has it
  float attention_softcap = 0.0f, final_softcap = 0.0f;  // 0: none
  std::vector<AttentionLayerConfig> attention;           // [layers]
  std::vector<int32_t> end_tokens;    // end a generation, besides those the tokenizer knows
  bool norm_weight_plus_one = false;  // the file stores w where the norm multiplies by 1 + w (HF gemma)
};

// Every number within ModelLimits and consistent with the others. Errors: kOutOfRange, kInvalidArgument;
// `path` begins the message.
Status ValidateModelConfig(const ModelConfig& config, const std::string& path);

}  // namespace holdfast
