// What a layer of every family so far has: attention and a gated MLP, each behind a norm of the residual
// stream. A family adds its own norms and says where the outputs go.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "models/blocks/attention_block.h"
#include "models/blocks/gated_mlp.h"
#include "models/blocks/norm.h"
#include "models/blocks/weight_loader.h"

namespace holdfast {

// blk.<layer>.<stem> [hidden_dim].
inline Result<Norm> LoadLayerNorm(const ModelConfig& config, int layer, std::string_view stem,
                                  WeightLoader& loader) {
  return Norm::Load(LayerTensor(layer, stem), config.hidden_dim, config.norm_eps, loader);
}

struct LayerCore {
  Norm attention_norm;
  AttentionBlock attention;
  Norm mlp_norm;
  GatedMlp mlp;

  // Takes blk.<layer>.{attn_norm,ffn_norm}.weight and what the two blocks take.
  static Result<LayerCore> Load(const ModelConfig& config, int layer, QkNorm qk_norm, WeightLoader& loader) {
    HF_ASSIGN_OR_RETURN(Norm attention_norm, LoadLayerNorm(config, layer, "attn_norm.weight", loader));
    HF_ASSIGN_OR_RETURN(AttentionBlock attention, AttentionBlock::Load(config, layer, qk_norm, loader));
    HF_ASSIGN_OR_RETURN(Norm mlp_norm, LoadLayerNorm(config, layer, "ffn_norm.weight", loader));
    HF_ASSIGN_OR_RETURN(GatedMlp mlp, GatedMlp::Load(config, layer, loader));
    return LayerCore{std::move(attention_norm), std::move(attention), std::move(mlp_norm), std::move(mlp)};
  }

  // The block's output is added to the residual stream, or goes to scratch.branch() for a norm after it.
  Status Attend(ForwardPass& pass, BlockOutput output) const {
    attention_norm.Apply(pass, pass.scratch.residual(), pass.rows(), pass.scratch.branch());
    return attention.Run(pass, output);
  }
  void FeedForward(ForwardPass& pass, BlockOutput output) const {
    mlp_norm.Apply(pass, pass.scratch.residual(), pass.rows(), pass.scratch.branch());
    mlp.Run(pass, output);
  }

  int64_t bytes() const {
    return attention_norm.bytes() + attention.bytes() + mlp_norm.bytes() + mlp.bytes();
  }
};

}  // namespace holdfast
