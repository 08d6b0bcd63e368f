// Where the two real models are, for tests that need them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "holdfast/model_store.h"

namespace holdfast {

struct RealModel {
  std::string name;  // as in tests/expectations
  std::string file;
};
inline const RealModel kRealModels[] = {{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"},
                                        {"gemma3", "gemma-3-270m-q4_k_m.gguf"}};

// "" where the model is not in the store (holdfast models fetch NAME).
inline std::string RealModelPath(const RealModel& model) {
  const auto path = ResolveModel(model.name);
  return path.ok() ? *path : "";
}

class RealModelTest : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    path_ = RealModelPath(GetParam());
    if (path_.empty())
      GTEST_SKIP() << "the model store does not hold " << GetParam().name << ": holdfast models fetch "
                   << GetParam().name;
  }
  std::string path_;
};

inline std::string RealModelName(const testing::TestParamInfo<RealModel>& info) {
  return info.param.name;
}

}  // namespace holdfast
