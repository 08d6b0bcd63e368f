// Grouped-query attention with rotary positions, as every family of today has it.
#pragma once

#include "models/blocks/forward_pass.h"
#include "models/blocks/norm.h"
#include "models/blocks/weight_loader.h"

namespace holdfast {

// Where a block's last product goes.
enum class BlockOutput : unsigned char {
  kAddToResidual,
  kBranch,  // overwrites scratch.branch(), for a post-norm
};

enum class QkNorm : unsigned char {
  kNone,
  kPerHead,  // an RMS norm of each q and k head before it is rotated
};

class AttentionBlock {
 public:
  // Takes blk.<layer>.attn_{q,k,v,output}, their biases as the config says, and attn_{q,k}_norm for kPerHead.
  static Result<AttentionBlock> Load(const ModelConfig& config, int layer, QkNorm qk_norm,
                                     WeightLoader& loader);

  // Input: scratch.branch(), all tokens. On the last layer the pass is narrowed to the wanted rows once their
  // attention is known, and the output product is theirs alone. Errors: those of KvBatch::Attend.
  Status Run(ForwardPass& pass, BlockOutput output) const;

  int64_t bytes() const;

 private:
  AttentionBlock() = default;
  void ProjectAndRotate(ForwardPass& pass) const;

  int layer_ = 0;
  Linear q_, k_, v_, output_;
  Norm q_norm_, k_norm_;  // of dim 0 where the family has none
};

}  // namespace holdfast
