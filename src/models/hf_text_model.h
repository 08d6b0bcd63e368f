// What a config.json says of any text model, and the reads that families share. A family's own keys are read
// in its file.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "models/hf_keys.h"
#include "models/model_config.h"

namespace holdfast {

// Fallbacks of the transformers class that reads the same file; 0: the key is required, except that KV heads
// are then as many as heads and a head is its even share of the hidden size.
struct HfDefaults {
  int64_t vocab_size, hidden_size, intermediate_size, layers, heads, kv_heads, head_dim, context_length;
  bool tied_embeddings;
  std::string_view activation_key, activation;
};

// Sizes, end tokens, biases, RoPE's pairing; refuses what no family has, by name.
Status ReadHfTextModel(JsonKeys& keys, const HfDefaults& defaults, ModelConfig& config);

// eos_token_id, one id or a list of them; absent: config.end_tokens stays.
Status ReadHfEndTokens(JsonKeys& keys, ModelConfig& config);

inline constexpr std::string_view kHfFullAttention = "full_attention";
inline constexpr std::string_view kHfSlidingAttention = "sliding_attention";
// layer_types: the type of every layer, each one of `supported`; empty where the file names none.
Result<std::vector<std::string>> ReadHfLayerTypes(JsonKeys& keys, int layers,
                                                  std::initializer_list<std::string_view> supported);

// Keys that change no logit of a text model that only runs: bookkeeping, training, generation defaults,
// tokenizer hints. For JsonKeys::CheckAllRead.
std::span<const std::string_view> HfHarmlessKeys();

}  // namespace holdfast
