#include "models/blocks/gated_mlp.h"

#include "base/status_macros.h"

namespace holdfast {

Result<GatedMlp> GatedMlp::Load(const ModelConfig& config, int layer, WeightLoader& loader) {
  GatedMlp mlp;
  const auto linear = [&](std::string_view stem, int64_t rows, int64_t cols) {
    return loader.LinearOf(LayerTensor(layer, stem), rows, cols, config.mlp_bias);
  };
  HF_ASSIGN_OR_RETURN(mlp.gate_, linear("ffn_gate", config.ffn_dim, config.hidden_dim));
  HF_ASSIGN_OR_RETURN(mlp.up_, linear("ffn_up", config.ffn_dim, config.hidden_dim));
  HF_ASSIGN_OR_RETURN(mlp.down_, linear("ffn_down", config.hidden_dim, config.ffn_dim));
  return mlp;
}

void GatedMlp::Run(ForwardPass& pass, BlockOutput output) const {
  if (pass.rows() == 0) return;
  const ModelConfig& c = pass.config;
  ForwardScratch& s = pass.scratch;
  const Product down = output == BlockOutput::kAddToResidual ? down_.AddTo(s.residual(), c.hidden_dim)
                                                             : down_.To(s.branch(), c.hidden_dim);
  s.activations.Set(s.branch(), pass.rows(), c.hidden_dim, c.hidden_dim);
  GatedMatMul(s.activations, gate_.To(s.gate(), c.ffn_dim), up_.To(s.up(), c.ffn_dim), c.activation,
              down_.weight, s.gated, pass.isa, pass.pool);
  MatMul(s.gated, {&down, 1}, pass.isa, pass.pool);
}

}  // namespace holdfast
