// The llama family: Llama 2 and 3, SmolLM2, Mistral (Touvron et al. 2023, arXiv:2302.13971).
//
//   x += attention(norm(x));  x += mlp(norm(x))
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "models/blocks/attention_block.h"
#include "models/blocks/gated_mlp.h"
#include "models/decoder_model.h"
#include "models/registry.h"

namespace holdfast {
namespace {

struct LlamaLayer {
  Norm attention_norm;
  AttentionBlock attention;
  Norm mlp_norm;
  GatedMlp mlp;

  int64_t bytes() const {
    return attention_norm.bytes() + attention.bytes() + mlp_norm.bytes() + mlp.bytes();
  }
};

class LlamaModel final : public DecoderModel {
 public:
  LlamaModel(ModelConfig config, ThreadPool& pool) : DecoderModel(std::move(config), pool) {}

  Status Load(WeightLoader& loader) {
    // Llama 3.1's frequency scaling, as GGUF files carry it.
    HF_ASSIGN_OR_RETURN(const auto freq_factors,
                        loader.OptionalVector("rope_freqs.weight", config_.rotary_dim / 2));
    HF_RETURN_IF_ERROR(LoadEnds(loader, freq_factors));
    for (int i = 0; i < config_.layers; ++i) {
      const auto norm = [&](std::string_view stem) {
        return Norm::Load(LayerTensor(i, stem), config_.hidden_dim, config_.norm_eps, loader);
      };
      HF_ASSIGN_OR_RETURN(auto attention_norm, norm("attn_norm.weight"));
      HF_ASSIGN_OR_RETURN(auto attention, AttentionBlock::Load(config_, i, QkNorm::kNone, loader));
      HF_ASSIGN_OR_RETURN(auto mlp_norm, norm("ffn_norm.weight"));
      HF_ASSIGN_OR_RETURN(auto mlp, GatedMlp::Load(config_, i, loader));
      layers_.push_back(
          {std::move(attention_norm), std::move(attention), std::move(mlp_norm), std::move(mlp)});
    }
    return loader.Finish();
  }

 private:
  Status RunLayer(int i, ForwardPass& pass) override {
    const LlamaLayer& layer = layers_[static_cast<size_t>(i)];
    ForwardScratch& s = pass.scratch;
    layer.attention_norm.Apply(pass, s.residual(), pass.rows(), s.branch());
    HF_RETURN_IF_ERROR(layer.attention.Run(pass, BlockOutput::kAddToResidual));
    layer.mlp_norm.Apply(pass, s.residual(), pass.rows(), s.branch());
    layer.mlp.Run(pass, BlockOutput::kAddToResidual);
    return OkStatus();
  }

  int64_t layer_bytes() const override {
    int64_t total = 0;
    for (const LlamaLayer& layer : layers_) total += layer.bytes();
    return total;
  }

  std::vector<LlamaLayer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> LoadLlama(ModelConfig config, WeightLoader& loader, ThreadPool& pool) {
  auto model = std::make_unique<LlamaModel>(std::move(config), pool);
  HF_RETURN_IF_ERROR(model->Load(loader));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace holdfast
