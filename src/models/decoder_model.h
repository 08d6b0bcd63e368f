// The walk that every decoder shares: embeddings, layers, head. A family supplies the type of its layers
// (LoadDecoder below) or, where they differ, a class of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status_macros.h"
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
  Status ForwardInParts(std::span<const int32_t> tokens, KvBatch& kv, std::span<const int64_t> logits_rows,
                        const LogitsParts& parts, const LayerTraceSink* trace) final;

 protected:
  // The pool runs every pass and must outlive the model.
  DecoderModel(ModelConfig config, ThreadPool& pool);

  // Embeddings, head and rotary embeddings, before any layer. freq_factors: see Rope::Create.
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

// A decoder of equal layers, each a
//   static Result<Layer> Load(const ModelConfig& config, int layer, WeightLoader& loader);
//   Status Run(ForwardPass& pass) const;   // reads and adds to the residual stream
//   int64_t bytes() const;                 // of its weights
template <typename Layer>
class DecoderOf final : public DecoderModel {
 public:
  DecoderOf(ModelConfig config, ThreadPool& pool) : DecoderModel(std::move(config), pool) {}

  // Takes every tensor; the first error, naming what is wrong, missing or left over.
  Status Load(std::span<const float> freq_factors, WeightLoader& loader) {
    HF_RETURN_IF_ERROR(LoadEnds(loader, freq_factors));
    for (int i = 0; i < config_.layers; ++i) {
      HF_ASSIGN_OR_RETURN(Layer layer, Layer::Load(config_, i, loader));
      layers_.push_back(std::move(layer));
    }
    return loader.Finish();
  }

 private:
  Status RunLayer(int i, ForwardPass& pass) override { return layers_[static_cast<size_t>(i)].Run(pass); }
  int64_t layer_bytes() const override {
    int64_t total = 0;
    for (const Layer& layer : layers_) total += layer.bytes();
    return total;
  }

  std::vector<Layer> layers_;
};

// What a family's function in registry.h does. freq_factors: see Rope::Create.
template <typename Layer>
Result<std::unique_ptr<Model>> LoadDecoder(ModelConfig config, std::span<const float> freq_factors,
                                           WeightLoader& loader, ThreadPool& pool) {
  auto model = std::make_unique<DecoderOf<Layer>>(std::move(config), pool);
  HF_RETURN_IF_ERROR(model->Load(freq_factors, loader));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace holdfast
