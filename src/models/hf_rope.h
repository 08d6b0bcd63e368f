// RoPE in config.json, in the three ways that transformers has written it over the years.
#pragma once

#include <string_view>

#include "holdfast/status.h"
#include "models/hf_keys.h"
#include "ops/elementwise.h"

namespace holdfast {

struct HfRope {
  double base = 10000.0;
  RopeScaling scaling;
};

// One RoPE for every layer: rope_parameters, or rope_theta with rope_scaling. Types default, linear and
// llama3; others (yarn, dynamic, longrope ...) and keys that belong to none are kUnimplemented, by name.
Result<HfRope> ReadHfRope(JsonKeys& keys, double default_base, int64_t context_length);

struct HfLayeredRope {
  HfRope full, sliding;
};
// One for each type of layer: rope_parameters {full_attention, sliding_attention}, or rope_theta with
// rope_scaling for the full layers and rope_local_base_freq for the sliding ones.
Result<HfLayeredRope> ReadHfLayeredRope(JsonKeys& keys, double default_full_base, double default_sliding_base,
                                        int64_t context_length);

}  // namespace holdfast
