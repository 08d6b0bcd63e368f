#include "holdfast/plan.h"

#include <utility>

#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "engine/center_store.h"
#include "engine/model_cache.h"
#include "holdfast/model_store.h"
#include "models/hf_config.h"
#include "models/model.h"

namespace holdfast {
namespace {

Result<ModelConfig> ReadConfig(const std::string& path) {
  if (!path.ends_with(".json")) return LoadModelConfig(path);
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file->bytes();
  return ParseHfConfig({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

// As EngineCore does it, so that what a session would refuse is refused here.
Status CentreCache(const ModelConfig& config, const std::string& path, const CacheOptions& options,
                   CacheConfig& cache) {
  if (path.ends_with(".json") && options.center && !options.center_file.empty()) {
    return InvalidArgument("plan: center_file is " + options.center_file + ", but " + path +
                           " alone has no weights that say whether it is of the same model");
  }
  CenterStore centers(path, config.vocab_size, CacheLayers(config));
  HF_RETURN_IF_ERROR(centers.Apply(options, cache));
  return ValidateCacheConfig(cache);
}

}  // namespace

Result<ModelPlan> PlanModel(const std::string& model, const CacheOptions& options) {
  HF_ASSIGN_OR_RETURN(std::string path, ResolveModel(model));
  HF_ASSIGN_OR_RETURN(const ModelConfig config, ReadConfig(path));
  ModelPlan plan;
  plan.info = ModelInfoOf(config, std::move(path));
  HF_ASSIGN_OR_RETURN(plan.cache, CacheConfigOf(config, options));
  HF_RETURN_IF_ERROR(CentreCache(config, plan.info.path, options, plan.cache));
  plan.layers = LayerInfosOf(config, plan.cache);
  return plan;
}

Result<int64_t> LargestContext(const CacheConfig& config, int64_t budget_bytes) {
  if (budget_bytes < 0) {
    return InvalidArgument("largest context: the budget is " + std::to_string(budget_bytes) +
                           " bytes, must be >= 0");
  }
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  int64_t fits = 0, beyond = config.max_context + 1;
  while (beyond - fits > 1) {
    CacheConfig trial = config;
    trial.max_context = fits + (beyond - fits) / 2;
    const auto bytes = PlanCache(trial, trial.max_context);
    // More bytes than can be counted are more than any budget.
    if (!bytes.ok() && bytes.status().code() != StatusCode::kOutOfRange) return bytes.status();
    const bool within = bytes.ok() && bytes->total_bytes() <= budget_bytes;
    (within ? fits : beyond) = trial.max_context;
  }
  return fits;
}

}  // namespace holdfast
