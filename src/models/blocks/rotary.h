// A model's rotary embeddings: one Rope for each distinct setting among its layers, and their angles for the
// pass at hand, computed once for all heads and layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "holdfast/status.h"
#include "models/model_config.h"
#include "ops/elementwise.h"
#include "simd/isa.h"

namespace holdfast {

class RotaryEmbeddings {
 public:
  RotaryEmbeddings() = default;
  // freq_factors: see Rope::Create; they apply to every layer. Errors: those of Rope::Create.
  static Result<RotaryEmbeddings> Create(const ModelConfig& config, std::span<const float> freq_factors);

  // Computes the angles of this pass's positions.
  void Prepare(std::span<const int64_t> positions, ThreadPool& pool);
  // Rotates x [prepared tokens, heads, head_dim], rows heads * head_dim floats long, as layer `layer` does.
  void Rotate(int layer, float* x, int64_t heads, Isa isa, ThreadPool& pool) const;

  int64_t bytes() const;  // of the angles

 private:
  int head_dim_ = 0;
  std::vector<Rope> ropes_;
  std::vector<RopeTable> tables_;  // by rope
  std::vector<int> rope_of_;       // by layer
};

}  // namespace holdfast
