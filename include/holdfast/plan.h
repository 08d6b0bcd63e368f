// What a cache will take, before anything is loaded or allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/engine.h"

namespace holdfast {

struct ModelPlan {
  ModelInfo info;  // what needs no weights; weight_bytes is 0
  CacheConfig cache;
  std::vector<LayerInfo> layers;
};

// model: a GGUF file, a Hugging Face folder (its config.json is enough), a config.json by itself (a path that
// ends in .json), or a short name of the model store. Reads metadata and no weights, but for the samples of them
// that identify the model where there is a file of centres. Errors: as Engine::Load and Engine::MakeCacheConfig;
// kInvalidArgument where a file of centres is named for a config.json by itself.
Result<ModelPlan> PlanModel(const std::string& model, const CacheOptions& options);

// The largest context, at most config.max_context, whose cache takes no more than budget_bytes by PlanCache once
// it is full; 0 where not even one token fits. Errors: kInvalidArgument (a budget below 0), those of PlanCache.
Result<int64_t> LargestContext(const CacheConfig& config, int64_t budget_bytes);

}  // namespace holdfast
