// The gemma3 family's text model (Gemma 3 technical report, arXiv:2503.19786).
//
//   x += post_norm(attention(norm(x)));  x += post_norm(mlp(norm(x)))
// with norms of each q and k head, windows in five layers of six, and a RoPE base of their own there; both
// are the config's per-layer settings.
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "models/blocks/layer_core.h"
#include "models/decoder_model.h"
#include "models/registry.h"

namespace holdfast {
namespace {

struct Gemma3Layer {
  LayerCore core;
  Norm attention_post_norm;
  Norm mlp_post_norm;

  static Result<Gemma3Layer> Load(const ModelConfig& config, int layer, WeightLoader& loader) {
    HF_ASSIGN_OR_RETURN(LayerCore core, LayerCore::Load(config, layer, QkNorm::kPerHead, loader));
    HF_ASSIGN_OR_RETURN(Norm attention_post_norm,
                        LoadLayerNorm(config, layer, "post_attention_norm.weight", loader));
    HF_ASSIGN_OR_RETURN(Norm mlp_post_norm, LoadLayerNorm(config, layer, "post_ffw_norm.weight", loader));
    return Gemma3Layer{std::move(core), std::move(attention_post_norm), std::move(mlp_post_norm)};
  }
  Status Run(ForwardPass& pass) const {
    ForwardScratch& s = pass.scratch;
    HF_RETURN_IF_ERROR(core.Attend(pass, BlockOutput::kBranch));
    attention_post_norm.AddTo(pass, s.branch(), pass.rows(), s.residual());
    core.FeedForward(pass, BlockOutput::kBranch);
    mlp_post_norm.AddTo(pass, s.branch(), pass.rows(), s.residual());
    return OkStatus();
  }
  int64_t bytes() const { return core.bytes() + attention_post_norm.bytes() + mlp_post_norm.bytes(); }
};

}  // namespace

Result<std::unique_ptr<Model>> LoadGemma3(ModelConfig config, WeightLoader& loader, ThreadPool& pool) {
  return LoadDecoder<Gemma3Layer>(std::move(config), {}, loader, pool);
}

}  // namespace holdfast
