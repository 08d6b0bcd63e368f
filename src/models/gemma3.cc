// The gemma3 family's text model (Gemma 3 technical report, arXiv:2503.19786).
//
//   x += post_norm(attention(norm(x)));  x += post_norm(mlp(norm(x)))
// with norms of each q and k head, windows in five layers of six, and a RoPE base of their own there; both
// are the config's per-layer settings.
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

struct Gemma3Layer {
  Norm attention_norm;
  AttentionBlock attention;
  Norm attention_post_norm;
  Norm mlp_norm;
  GatedMlp mlp;
  Norm mlp_post_norm;

  int64_t bytes() const {
    return attention_norm.bytes() + attention.bytes() + attention_post_norm.bytes() + mlp_norm.bytes() +
           mlp.bytes() + mlp_post_norm.bytes();
  }
};

class Gemma3Model final : public DecoderModel {
 public:
  Gemma3Model(ModelConfig config, ThreadPool& pool) : DecoderModel(std::move(config), pool) {}

  Status Load(WeightLoader& loader) {
    HF_RETURN_IF_ERROR(LoadEnds(loader, {}));
    for (int i = 0; i < config_.layers; ++i) {
      const auto norm = [&](std::string_view stem) {
        return Norm::Load(LayerTensor(i, stem), config_.hidden_dim, config_.norm_eps, loader);
      };
      HF_ASSIGN_OR_RETURN(auto attention_norm, norm("attn_norm.weight"));
      HF_ASSIGN_OR_RETURN(auto attention, AttentionBlock::Load(config_, i, QkNorm::kPerHead, loader));
      HF_ASSIGN_OR_RETURN(auto attention_post_norm, norm("post_attention_norm.weight"));
      HF_ASSIGN_OR_RETURN(auto mlp_norm, norm("ffn_norm.weight"));
      HF_ASSIGN_OR_RETURN(auto mlp, GatedMlp::Load(config_, i, loader));
      HF_ASSIGN_OR_RETURN(auto mlp_post_norm, norm("post_ffw_norm.weight"));
      layers_.push_back({std::move(attention_norm), std::move(attention), std::move(attention_post_norm),
                         std::move(mlp_norm), std::move(mlp), std::move(mlp_post_norm)});
    }
    return loader.Finish();
  }

 private:
  Status RunLayer(int i, ForwardPass& pass) override {
    const Gemma3Layer& layer = layers_[static_cast<size_t>(i)];
    ForwardScratch& s = pass.scratch;
    layer.attention_norm.Apply(pass, s.residual(), pass.rows(), s.branch());
    HF_RETURN_IF_ERROR(layer.attention.Run(pass, BlockOutput::kBranch));
    layer.attention_post_norm.AddTo(pass, s.branch(), pass.rows(), s.residual());
    layer.mlp_norm.Apply(pass, s.residual(), pass.rows(), s.branch());
    layer.mlp.Run(pass, BlockOutput::kBranch);
    layer.mlp_post_norm.AddTo(pass, s.branch(), pass.rows(), s.residual());
    return OkStatus();
  }

  int64_t layer_bytes() const override {
    int64_t total = 0;
    for (const Gemma3Layer& layer : layers_) total += layer.bytes();
    return total;
  }

  std::vector<Gemma3Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> LoadGemma3(ModelConfig config, WeightLoader& loader, ThreadPool& pool) {
  auto model = std::make_unique<Gemma3Model>(std::move(config), pool);
  HF_RETURN_IF_ERROR(model->Load(loader));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace holdfast
