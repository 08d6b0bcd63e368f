// The parameters of attention that a model's layer chooses; the cache chooses everything else.
#pragma once

namespace holdfast {

// score = scale * <q, k>; where softcap > 0: score = softcap * tanh(score / softcap) (Gemma 2).
// sink_logits, where not null: [q_heads], one more logit per head that takes weight and adds no value
// (gpt-oss); -inf: none for that head. The array must outlive the call. scale, softcap and logits must be
// finite, softcap >= 0.
struct AttentionRule {
  float scale = 1.0f;
  float softcap = 0.0f;
  const float* sink_logits = nullptr;
};

}  // namespace holdfast
