// Where the two real models are, for tests that need them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace holdfast {

struct RealModel {
  std::string name;  // as in tests/expectations
  std::string file;
};
inline const RealModel kRealModels[] = {{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"},
                                        {"gemma3", "gemma-3-270m-q4_k_m.gguf"}};

// "" where the model is not here.
inline std::string RealModelPath(const RealModel& model) {
  const char* folder = std::getenv("HOLDFAST_MODELS_DIR");
  if (folder == nullptr) return "";
  const auto path = std::filesystem::path(folder) / model.file;
  return std::filesystem::exists(path) ? path.string() : "";
}

class RealModelTest : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    path_ = RealModelPath(GetParam());
    if (path_.empty()) GTEST_SKIP() << "HOLDFAST_MODELS_DIR does not hold " << GetParam().file;
  }
  std::string path_;
};

inline std::string RealModelName(const testing::TestParamInfo<RealModel>& info) {
  return info.param.name;
}

}  // namespace holdfast
