// Plans without weights agree with the loaded model, and a budget's largest context is the largest.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "holdfast/calibrate.h"
#include "holdfast/plan.h"

namespace holdfast {
namespace {

constexpr const char* kGolden = HOLDFAST_SOURCE_DIR "/tests/golden/";

TEST(Plan, IsTheLoadedModelsCache) {
  for (const std::string name : {"llama_tied/model.gguf", "gemma3/model.gguf", "mistral_window/hf"}) {
    CacheOptions options;
    options.k_codec = CodecId::kInt8;
    options.storage = StorageId::kPaged;
    const auto plan = PlanModel(kGolden + name, options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const auto engine = Engine::Load(kGolden + name, {}).value();
    EXPECT_EQ(plan->cache, engine->MakeCacheConfig(options).value()) << name;
    EXPECT_EQ(plan->info.architecture, engine->info().architecture);
    EXPECT_EQ(plan->info.q_heads, engine->info().q_heads);
    EXPECT_EQ(plan->layers.size(), engine->Layers(plan->cache).size());
  }
}

TEST(Plan, NeedsAConfigAndNoWeights) {
  const auto from_file = PlanModel(std::string(kGolden) + "gemma3/hf/config.json", {});
  ASSERT_TRUE(from_file.ok()) << from_file.status().message();
  EXPECT_EQ(from_file->cache, PlanModel(std::string(kGolden) + "gemma3/hf", {})->cache);
  const std::string folder = testing::TempDir() + "config_without_weights";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(std::string(kGolden) + "gemma3/hf/config.json", folder + "/config.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(PlanModel(folder, {}).value().cache, from_file->cache);
  EXPECT_FALSE(PlanModel(folder + "/missing.json", {}).ok());
  std::filesystem::remove_all(folder);
}

TEST(Plan, CentresWhatTheLoadedModelCentresAndRefusesWhatItRefuses) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "plan_centres";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string model = (folder / "model.gguf").string();
  fs::copy_file(std::string(kGolden) + "llama_tied/model.gguf", model);
  const auto engine = Engine::Load(model, {}).value();
  const std::vector<int32_t> tokens(64, 5);
  CacheOptions options;
  options.k_codec = options.v_codec = CodecId::kInt8;
  EXPECT_EQ(PlanModel(model, options)->cache, engine->MakeCacheConfig(options).value());
  ASSERT_TRUE(WriteCenters(*engine, Calibrate(*engine, tokens, {}).value(), DefaultCenterPath(model)).ok());
  const auto planned = PlanModel(model, options);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  const CacheConfig loaded = engine->MakeCacheConfig(options).value();
  for (size_t i = 0; i < loaded.layers.size(); ++i) {
    ASSERT_NE(planned->cache.layers[i].k_transform.center, nullptr);
    EXPECT_EQ(*planned->cache.layers[i].k_transform.center, *loaded.layers[i].k_transform.center);
  }
  options.center_file = "/nonexistent";
  EXPECT_EQ(PlanModel(model, options).status().message(),
            engine->MakeCacheConfig(options).status().message());
  const auto alone = PlanModel(std::string(kGolden) + "gemma3/hf/config.json", options);
  EXPECT_EQ(alone.status().code(), StatusCode::kInvalidArgument) << "nothing to check the file against";
  fs::remove_all(folder);
}

TEST(Plan, TheLargestContextFitsTheBudgetAndOneMoreDoesNot) {
  for (const StorageId storage : AllStorages()) {
    for (const CodecId codec : AllCodecs()) {
      CacheConfig config;
      LayerConfig full;
      full.k_codec = full.v_codec = codec;
      full.shape = {64, 64, false};
      full.kv_heads = 3;
      LayerConfig window = full;
      window.layout = {LayoutId::kWindow, 1000, 4};
      config.layers = {full, window, full};
      config.storage = storage;
      config.max_context = 100'000;
      for (const int64_t budget : {int64_t{1}, int64_t{300'000}, int64_t{5'000'000}, int64_t{1} << 40}) {
        const int64_t largest = LargestContext(config, budget).value();
        CacheConfig trial = config;
        if (largest > 0) {
          trial.max_context = largest;
          EXPECT_LE(PlanCache(trial, largest).value().total_bytes(), budget);
        }
        if (largest == config.max_context) continue;
        trial.max_context = largest + 1;
        EXPECT_GT(PlanCache(trial, largest + 1).value().total_bytes(), budget)
            << CodecName(codec) << " " << budget;
      }
      EXPECT_EQ(LargestContext(config, 0).value(), 0);
      EXPECT_EQ(LargestContext(config, int64_t{1} << 40).value(), config.max_context);
      EXPECT_EQ(LargestContext(config, -1).status().code(), StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace holdfast
