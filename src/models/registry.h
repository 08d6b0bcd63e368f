// From an architecture's name to the family that implements it.
#pragma once

#include <memory>
#include <string_view>

#include "models/blocks/weight_loader.h"
#include "models/model.h"
#include "models/model_list.h"

namespace holdfast {

struct ModelFamily {
  std::string_view name;
  // Builds the model and takes every tensor of the file; errors name tensors and shapes. The pool must
  // outlive the model.
  Result<std::unique_ptr<Model>> (*load)(ModelConfig config, WeightLoader& loader, ThreadPool& pool);
};

// Errors: kUnimplemented, naming the architecture and those that there are.
Result<ModelFamily> FindModelFamily(std::string_view architecture);

#define HOLDFAST_DECLARE_MODEL(name, load) \
  Result<std::unique_ptr<Model>> load(ModelConfig config, WeightLoader& loader, ThreadPool& pool);
HOLDFAST_MODELS(HOLDFAST_DECLARE_MODEL)
#undef HOLDFAST_DECLARE_MODEL

}  // namespace holdfast
