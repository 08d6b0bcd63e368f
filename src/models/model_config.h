// What a model file says about its mathematics, in one form for every file format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/cache_config.h"
#include "ops/elementwise.h"

namespace holdfast {

// Per-layer attention: which positions, which RoPE.
struct AttentionLayerConfig {
  LayoutConfig layout;
  double rope_base = 10000.0;
  RopeScaling rope_scaling;
};

struct ModelConfig {
  std::string architecture;       // family's registry name: "llama", "gemma3"
  std::string name;               // what the file calls itself; for people
  int64_t vocab_size = 0, hidden_dim = 0, ffn_dim = 0, context_length = 0;
  int layers = 0, q_heads = 0, kv_heads = 0, head_dim = 0, rotary_dim = 0;
  float norm_eps = 1e-5f;
  bool tied_embeddings = false, qkv_bias = false, output_bias = false, mlp_bias = false;
  RopePairing rope_pairing = RopePairing::kHalves;
  Activation activation = Activation::kSilu;
  float attention_scale = 0.0f;   // multiplies <q, k>
  float embedding_scale = 1.0f;   // gemma: sqrt(hidden_dim), rounded to bf16 where the reference does so
  float attention_softcap = 0.0f, final_softcap = 0.0f;
  std::vector<AttentionLayerConfig> attention;  // [layers]
  bool norm_weight_plus_one = false;  // the file stores w where the norm multiplies by 1 + w (HF gemma)
};

}  // namespace holdfast
