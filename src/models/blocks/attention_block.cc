#include "models/blocks/attention_block.h"

#include <utility>

#include "base/status_macros.h"

namespace holdfast {

Result<AttentionBlock> AttentionBlock::Load(const ModelConfig& config, int layer, QkNorm qk_norm,
                                            WeightLoader& loader) {
  const int64_t q_width = int64_t{config.q_heads} * config.head_dim;
  const int64_t kv_width = int64_t{config.kv_heads} * config.head_dim;
  AttentionBlock block;
  block.layer_ = layer;
  const auto linear = [&](std::string_view stem, int64_t rows, int64_t cols, bool bias) {
    return loader.LinearOf(LayerTensor(layer, stem), rows, cols, bias);
  };
  HF_ASSIGN_OR_RETURN(block.q_, linear("attn_q", q_width, config.hidden_dim, config.qkv_bias));
  HF_ASSIGN_OR_RETURN(block.k_, linear("attn_k", kv_width, config.hidden_dim, config.qkv_bias));
  HF_ASSIGN_OR_RETURN(block.v_, linear("attn_v", kv_width, config.hidden_dim, config.qkv_bias));
  HF_ASSIGN_OR_RETURN(block.output_, linear("attn_output", config.hidden_dim, q_width, config.output_bias));
  if (qk_norm == QkNorm::kPerHead) {
    const auto norm = [&](std::string_view stem) {
      return Norm::Load(LayerTensor(layer, stem), config.head_dim, config.norm_eps, loader);
    };
    HF_ASSIGN_OR_RETURN(block.q_norm_, norm("attn_q_norm.weight"));
    HF_ASSIGN_OR_RETURN(block.k_norm_, norm("attn_k_norm.weight"));
  }
  return block;
}

void AttentionBlock::ProjectAndRotate(ForwardPass& pass) const {
  const ModelConfig& c = pass.config;
  ForwardScratch& s = pass.scratch;
  const int64_t q_width = q_.weight.rows();
  const int64_t kv_width = k_.weight.rows();
  const Product products[] = {q_.To(s.q(), q_width), k_.To(s.k(), kv_width), v_.To(s.v(), kv_width)};
  pass.Multiply(s.branch(), pass.rows(), c.hidden_dim, products);
  if (q_norm_.dim() > 0) {
    q_norm_.Apply(pass, s.q(), pass.rows() * c.q_heads, s.q());
    k_norm_.Apply(pass, s.k(), pass.rows() * c.kv_heads, s.k());
  }
  s.rotary.Rotate(layer_, s.q(), c.q_heads, pass.isa, pass.pool);
  s.rotary.Rotate(layer_, s.k(), c.kv_heads, pass.isa, pass.pool);
}

Status AttentionBlock::Run(ForwardPass& pass, BlockOutput output) const {
  const ModelConfig& c = pass.config;
  ForwardScratch& s = pass.scratch;
  ProjectAndRotate(pass);
  const AttentionRule rule{.scale = c.attention_scale, .softcap = c.attention_softcap};
  HF_RETURN_IF_ERROR(pass.kv.Attend(LayerId{layer_}, c.q_heads, s.q(), s.k(), s.v(), rule, s.attended()));
  if (layer_ == c.layers - 1 && !pass.keeps_all_rows()) pass.NarrowToWanted();
  const Product product = output == BlockOutput::kAddToResidual ? output_.AddTo(s.residual(), c.hidden_dim)
                                                                : output_.To(s.branch(), c.hidden_dim);
  pass.Multiply(s.attended(), pass.rows(), output_.weight.cols(), {&product, 1});
  return OkStatus();
}

int64_t AttentionBlock::bytes() const {
  return q_.bytes() + k_.bytes() + v_.bytes() + output_.bytes() + q_norm_.bytes() + k_norm_.bytes();
}

}  // namespace holdfast
