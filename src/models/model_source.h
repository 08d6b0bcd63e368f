// A model on disk, opened and understood but not loaded: the one place that knows which formats there are.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "models/model_config.h"
#include "models/weight_source.h"
#include "tokenizer/tokenizer.h"

namespace holdfast {

struct ModelSource {
  ModelConfig config;
  std::unique_ptr<WeightSource> weights;
  std::optional<TokenizerSpec> tokenizer;  // empty where the format's tokenizer is not supported
  std::string tokenizer_missing;           // why, then
  std::string chat_template;               // "" where the file has none
};

// path: a GGUF file or a Hugging Face folder (config.json and safetensors). Reads headers and metadata, no
// weights.
Result<ModelSource> OpenModelSource(const std::string& path);
// The config alone: the tokenizer's arrays are not copied, and a folder needs no weights.
Result<ModelConfig> OpenModelConfig(const std::string& path);

}  // namespace holdfast
