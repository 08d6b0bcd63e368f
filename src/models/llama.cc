// The llama family: Llama 2 and 3, SmolLM2, Mistral (Touvron et al. 2023, arXiv:2302.13971).
//
//   x += attention(norm(x));  x += mlp(norm(x))
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "models/blocks/layer_core.h"
#include "models/decoder_model.h"
#include "models/registry.h"

namespace holdfast {
namespace {

struct LlamaLayer {
  LayerCore core;

  static Result<LlamaLayer> Load(const ModelConfig& config, int layer, WeightLoader& loader) {
    HF_ASSIGN_OR_RETURN(LayerCore core, LayerCore::Load(config, layer, QkNorm::kNone, loader));
    return LlamaLayer{std::move(core)};
  }
  Status Run(ForwardPass& pass) const {
    HF_RETURN_IF_ERROR(core.Attend(pass, BlockOutput::kAddToResidual));
    core.FeedForward(pass, BlockOutput::kAddToResidual);
    return OkStatus();
  }
  int64_t bytes() const { return core.bytes(); }
};

}  // namespace

Result<std::unique_ptr<Model>> LoadLlama(ModelConfig config, WeightLoader& loader, ThreadPool& pool) {
  // Llama 3.1's frequency scaling, as GGUF files carry it.
  HF_ASSIGN_OR_RETURN(const auto freq_factors,
                      loader.OptionalVector("rope_freqs.weight", config.rotary_dim / 2));
  return LoadDecoder<LlamaLayer>(std::move(config), freq_factors, loader, pool);
}

}  // namespace holdfast
