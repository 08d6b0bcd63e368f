// Token embeddings, and the head that turns the residual stream into logits; tied models share one matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "models/blocks/forward_pass.h"
#include "models/blocks/norm.h"
#include "models/blocks/weight_loader.h"

namespace holdfast {

class Embedding {
 public:
  // Takes token_embd.weight [vocab_size, hidden_dim].
  static Result<Embedding> Load(const ModelConfig& config, WeightLoader& loader);

  // Writes the residual stream: each token's row times the embedding scale. REQUIRES ids within the
  // vocabulary.
  void Run(ForwardPass& pass, std::span<const int32_t> tokens) const;

  const std::shared_ptr<const PackedMatrix>& matrix() const { return matrix_; }
  int64_t bytes() const { return matrix_ ? matrix_->bytes() : 0; }

 private:
  std::shared_ptr<const PackedMatrix> matrix_;
};

class LmHead {
 public:
  // Takes output_norm.weight and, unless the config ties the embeddings, output.weight [vocab_size,
  // hidden_dim].
  static Result<LmHead> Load(const ModelConfig& config, const Embedding& embedding, WeightLoader& loader);

  // logits [count, vocab_size] = softcap(head(norm(rows of the residual stream from `first` on))). Overwrites the other
  // scratch buffers.
  //
  // An error of the head's input goes straight into the logits, with no layer after it to average it out. So
  // where products take int8 activations, the input goes in two parts (Product::two_parts).
  void Run(ForwardPass& pass, int64_t first, int64_t count, float* logits) const;

  // Without a matrix that is shared with the embeddings.
  int64_t bytes() const { return norm_.bytes() + (shared_ ? 0 : matrix_->bytes()); }

 private:
  Norm norm_;
  std::shared_ptr<const PackedMatrix> matrix_;
  bool shared_ = false;
};

}  // namespace holdfast
