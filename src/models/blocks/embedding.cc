#include "models/blocks/embedding.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"

namespace holdfast {
namespace {

constexpr int64_t kTokensPerTask = 16;

}  // namespace

Result<Embedding> Embedding::Load(const ModelConfig& config, WeightLoader& loader) {
  Embedding embedding;
  HF_ASSIGN_OR_RETURN(PackedMatrix matrix,
                      loader.Matrix("token_embd.weight", config.vocab_size, config.hidden_dim));
  embedding.matrix_ = std::make_shared<const PackedMatrix>(std::move(matrix));
  return embedding;
}

void Embedding::Run(ForwardPass& pass, std::span<const int32_t> tokens) const {
  const int64_t dim = pass.config.hidden_dim;
  const float scale = pass.config.embedding_scale;
  float* residual = pass.scratch.residual();
  const auto count = static_cast<int64_t>(tokens.size());
  const auto look_up = [&](int64_t task, int) {
    for (int64_t t = task * kTokensPerTask; t < std::min(count, (task + 1) * kTokensPerTask); ++t) {
      float* row = residual + t * dim;
      matrix_->DequantizeRow(tokens[static_cast<size_t>(t)], row);
      if (scale == 1.0f) continue;
      for (int64_t i = 0; i < dim; ++i) row[i] *= scale;
    }
  };
  const int64_t tasks = CeilDiv(count, kTokensPerTask);
  if (tasks == 1) {
    look_up(0, 0);  // a decode step: not worth waking a thread
  } else {
    pass.pool.ParallelFor(tasks, look_up);
  }
}

Result<LmHead> LmHead::Load(const ModelConfig& config, const Embedding& embedding, WeightLoader& loader) {
  LmHead head;
  HF_ASSIGN_OR_RETURN(head.norm_,
                      Norm::Load("output_norm.weight", config.hidden_dim, config.norm_eps, loader));
  head.shared_ = config.tied_embeddings;
  if (head.shared_) {
    head.matrix_ = embedding.matrix();
    return head;
  }
  HF_ASSIGN_OR_RETURN(PackedMatrix matrix,
                      loader.Matrix("output.weight", config.vocab_size, config.hidden_dim));
  head.matrix_ = std::make_shared<const PackedMatrix>(std::move(matrix));
  return head;
}

void LmHead::Run(ForwardPass& pass, int64_t first, int64_t count, float* logits) const {
  const int64_t vocab = pass.config.vocab_size;
  norm_.Apply(pass, pass.scratch.residual() + first * pass.config.hidden_dim, count, pass.scratch.branch());
  const Product product{.weight = matrix_.get(), .out = logits, .out_stride = vocab, .two_parts = true};
  pass.Multiply(pass.scratch.branch(), count, pass.config.hidden_dim, {&product, 1});
  const float cap = pass.config.final_softcap;
  if (cap <= 0.0f) return;
  pass.pool.ParallelFor(count, [&](int64_t row, int) {
    float* out = logits + row * vocab;
    for (int64_t i = 0; i < vocab; ++i) out[i] = cap * std::tanh(out[i] / cap);
  });
}

}  // namespace holdfast
