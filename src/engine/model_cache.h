// What a model's configuration alone says of it and of its cache, for loaded models and for plans.
#pragma once

#include <string>
#include <vector>

#include "holdfast/engine.h"
#include "models/model_config.h"

namespace holdfast {

// Without what only a loaded model knows: weight_bytes, tokenizer, chat format.
ModelInfo ModelInfoOf(const ModelConfig& model, std::string path);

// The cache of a model under these options. Errors: kOutOfRange (max_context past the model's), kInvalidArgument,
// those of ValidateCacheConfig.
Result<CacheConfig> CacheConfigOf(const ModelConfig& model, const CacheOptions& options);

// The same cache in f16, nothing transformed or protected: what a two-phase prefill fills first.
CacheConfig RawConfigOf(CacheConfig config);

// REQUIRES config to be of this model.
std::vector<LayerInfo> LayerInfosOf(const ModelConfig& model, const CacheConfig& config);

}  // namespace holdfast
