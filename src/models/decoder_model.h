// The walk that every decoder shares: embeddings, layers, head. A family supplies its layers.
#pragma once

#include <memory>

#include "models/blocks/embedding.h"
#include "models/blocks/forward_pass.h"
#include "models/blocks/weight_loader.h"
#include "models/model.h"
#include "simd/isa.h"

namespace holdfast {

class DecoderModel : public Model {
 public:
  int64_t weight_bytes() const final { return embedding_.bytes() + head_.bytes() + layer_bytes(); }
  int64_t scratch_bytes() const final { return scratch_.bytes(); }
  Status Forward(std::span<const int32_t> tokens, KvBatch& kv, std::span<const int64_t> logits_rows,
                 float* logits, const LayerTraceSink* trace) final;

 protected:
  // The pool runs every pass and must outlive the model.
  DecoderModel(ModelConfig config, ThreadPool& pool);

  // Embeddings, head and rotary embeddings; a family's Load calls it. freq_factors: see Rope::Create.
  Status LoadEnds(WeightLoader& loader, std::span<const float> freq_factors);

  // One layer: reads and adds to the residual stream.
  virtual Status RunLayer(int layer, ForwardPass& pass) = 0;
  virtual int64_t layer_bytes() const = 0;

 private:
  Status CheckCall(std::span<const int32_t> tokens, const KvBatch& kv,
                   std::span<const int64_t> logits_rows) const;

  ThreadPool& pool_;
  Isa isa_;
  ForwardScratch scratch_;
  Embedding embedding_;
  LmHead head_;
};

}  // namespace holdfast
