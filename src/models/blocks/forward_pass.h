// What the blocks of one forward pass share: the batch, and the buffers that activations flow through.
#pragma once

#include <cstdint>
#include <span>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "holdfast/status.h"
#include "kv/batch.h"
#include "models/blocks/rotary.h"
#include "models/model_config.h"
#include "ops/matmul.h"
#include "simd/isa.h"

namespace holdfast {

// Buffers for batches of up to tokens() tokens, kept between passes so that a step allocates nothing.
// Attention and MLP never run at once, so their wide buffers share memory.
class ForwardScratch {
 public:
  explicit ForwardScratch(const ModelConfig& config);

  // Room for a batch of `tokens`. Errors: kResourceExhausted.
  Status Reserve(int64_t tokens);
  int64_t bytes() const {
    return buffer_.size_bytes() + activations.bytes() + gated.bytes() + rotary.bytes();
  }

  float* residual() { return At(0); }  // [tokens, hidden_dim] the residual stream
  float* branch() {
    return At(hidden_);
  }  // [tokens, hidden_dim] a block's input, or its output before a post-norm
  float* q() { return At(2 * hidden_); }                 // [tokens, q_heads, head_dim]
  float* attended() { return At(2 * hidden_ + q_); }     // [tokens, q_heads, head_dim]
  float* k() { return At(2 * hidden_ + 2 * q_); }        // [tokens, kv_heads, head_dim]
  float* v() { return At(2 * hidden_ + 2 * q_ + kv_); }  // [tokens, kv_heads, head_dim]
  float* gate() { return At(2 * hidden_); }              // [tokens, ffn_dim]
  float* up() { return At(2 * hidden_ + ffn_); }         // [tokens, ffn_dim]

  Activations activations;  // the prepared input of the product at hand
  Activations gated;        // that of an MLP's last product
  RotaryEmbeddings rotary;  // with the angles of the pass at hand

 private:
  float* At(int64_t width) { return reinterpret_cast<float*>(buffer_.data()) + width * tokens_; }

  int64_t hidden_, q_, kv_, ffn_;  // floats a token, in whole cache lines
  int64_t tokens_ = 0;
  HugeBuffer buffer_;
};

// One pass over a flat batch. Rows of the residual stream are the batch's tokens, until the last layer has
// attended: from there on only the rows whose logits are wanted are carried, since nothing reads the others
// again.
class ForwardPass {
 public:
  // wanted: ascending indices of tokens, each in [0, kv.tokens()). All arguments must outlive the pass.
  // REQUIRES scratch.Reserve(kv.tokens()).
  ForwardPass(const ModelConfig& model, KvBatch& batch, std::span<const int64_t> wanted,
              ForwardScratch& buffers, Isa kernels, ThreadPool& threads)
      : config(model),
        kv(batch),
        scratch(buffers),
        isa(kernels),
        pool(threads),
        wanted_(wanted),
        rows_(kv.tokens()) {}

  const ModelConfig& config;
  KvBatch& kv;
  ForwardScratch& scratch;
  const Isa isa;
  ThreadPool& pool;

  int64_t rows() const { return rows_; }  // rows that the residual stream has now

  // Keeps the wanted rows of the residual stream and of `attended` alone, moved to the front. Once a pass.
  void NarrowToWanted();
  // Keeps all rows to the end of the last layer, for a trace; NarrowToWanted must then be called before the
  // head.
  void KeepAllRows() { keep_all_rows_ = true; }
  bool keeps_all_rows() const { return keep_all_rows_; }

  // Products of `count` rows of x, `width` floats each; see MatMul.
  void Multiply(const float* x, int64_t count, int64_t width, std::span<const Product> products);

 private:
  std::span<const int64_t> wanted_;
  int64_t rows_;
  bool narrowed_ = false;
  bool keep_all_rows_ = false;
};

}  // namespace holdfast
