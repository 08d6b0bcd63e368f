// From a path to a model that runs: opens the file, builds the family, the tokenizer and the chat format.
#include <utility>

#include "base/status_macros.h"
#include "models/model.h"
#include "models/model_source.h"
#include "models/registry.h"

namespace holdfast {

Result<LoadedModel> LoadModel(const std::string& path, const LoadOptions& options, ThreadPool& pool) {
  HF_ASSIGN_OR_RETURN(ModelSource source, OpenModelSource(path));
  const ModelFamily& family = *FindModelFamily(source.config.architecture);  // configs are of known ones
  LoadedModel loaded;
  loaded.chat_template = std::move(source.chat_template);
  if (source.tokenizer) {
    HF_ASSIGN_OR_RETURN(loaded.tokenizer, Tokenizer::Create(*std::move(source.tokenizer)));
    if (loaded.tokenizer->vocab_size() != source.config.vocab_size) {
      return DataLoss(path + ": the tokenizer has " + std::to_string(loaded.tokenizer->vocab_size()) +
                      " pieces, the embeddings " + std::to_string(source.config.vocab_size));
    }
  }
  loaded.tokenizer_missing = std::move(source.tokenizer_missing);
  // A template that is not in the table leaves the model usable for plain text.
  const auto format = DetectChatFormat(loaded.chat_template, family.chat_format);
  if (format.ok()) {
    loaded.chat_format = *format;
  } else if (format.status().code() != StatusCode::kUnimplemented) {
    return format.status();
  }
  WeightLoader loader(*source.weights, options, source.config.norm_weight_plus_one, pool);
  HF_ASSIGN_OR_RETURN(loaded.model, family.load(std::move(source.config), loader, pool));
  return loaded;
}

Result<ModelConfig> LoadModelConfig(const std::string& path) {
  return OpenModelConfig(path);
}

std::vector<LayerConfig> CacheLayers(const ModelConfig& config) {
  std::vector<LayerConfig> layers;
  for (const AttentionLayerConfig& attention : config.attention) {
    LayerConfig layer;
    layer.layout = attention.layout;
    layer.shape = RowShape{config.head_dim, config.head_dim, false};
    layer.kv_heads = config.kv_heads;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace holdfast
