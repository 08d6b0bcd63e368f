#include "models/blocks/forward_pass.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"

namespace holdfast {
namespace {

constexpr int64_t kLineFloats = 16;

// Rows of `width` floats: row wanted[i] becomes row i. Ascending, so no row is overwritten before it has
// moved.
void Gather(float* rows, int64_t width, std::span<const int64_t> wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto to = static_cast<int64_t>(i);
    if (wanted[i] == to) continue;
    std::memcpy(rows + to * width, rows + wanted[i] * width, static_cast<size_t>(width) * sizeof(float));
  }
}

}  // namespace

ForwardScratch::ForwardScratch(const ModelConfig& config)
    : hidden_(RoundUp(config.hidden_dim, kLineFloats)),
      q_(RoundUp(int64_t{config.q_heads} * config.head_dim, kLineFloats)),
      kv_(RoundUp(int64_t{config.kv_heads} * config.head_dim, kLineFloats)),
      ffn_(RoundUp(config.ffn_dim, kLineFloats)) {}

Status ForwardScratch::Reserve(int64_t tokens) {
  if (tokens <= tokens_) return OkStatus();
  const int64_t width = 2 * hidden_ + std::max(2 * q_ + 2 * kv_, 2 * ffn_);
  const auto floats = CheckedMul(width, tokens);
  const auto bytes = floats ? CheckedMul(*floats, sizeof(float)) : std::nullopt;
  if (!bytes) {
    return ResourceExhausted("forward: scratch for " + std::to_string(tokens) +
                             " tokens does not fit any memory");
  }
  buffer_ = HugeBuffer();  // never both at once
  tokens_ = 0;
  HF_ASSIGN_OR_RETURN(buffer_, HugeBuffer::Allocate(*bytes));
  tokens_ = tokens;
  return OkStatus();
}

void ForwardPass::NarrowToWanted() {
  if (narrowed_) return;
  Gather(scratch.residual(), config.hidden_dim, wanted_);
  Gather(scratch.attended(), int64_t{config.q_heads} * config.head_dim, wanted_);
  rows_ = static_cast<int64_t>(wanted_.size());
  narrowed_ = true;
}

void ForwardPass::Multiply(const float* x, int64_t count, int64_t width, std::span<const Product> products) {
  if (count == 0) return;
  scratch.activations.Set(x, count, width, width);
  MatMul(scratch.activations, products, isa, pool);
}

}  // namespace holdfast
