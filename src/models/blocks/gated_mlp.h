// down(f(gate(x)) * up(x)): SwiGLU, GeGLU (Shazeer 2020).
#pragma once

#include "models/blocks/attention_block.h"
#include "models/blocks/forward_pass.h"
#include "models/blocks/weight_loader.h"

namespace holdfast {

class GatedMlp {
 public:
  // Takes blk.<layer>.ffn_{gate,up,down}, with biases where the config says so.
  static Result<GatedMlp> Load(const ModelConfig& config, int layer, WeightLoader& loader);

  // Input: scratch.branch(), pass.rows() rows.
  void Run(ForwardPass& pass, BlockOutput output) const;

  int64_t bytes() const { return gate_.bytes() + up_.bytes() + down_.bytes(); }

 private:
  GatedMlp() = default;
  Linear gate_, up_, down_;
};

}  // namespace holdfast
