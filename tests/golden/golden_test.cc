// Every folder under tests/golden, as a Hugging Face folder and as GGUF, against what transformers computed:
// see tools/make_golden.py. A new golden is a new folder; nothing here changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "model_runner.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr float kTolerance = 1e-4f;

struct Golden {
  std::string name, path;
  fs::path folder;
};

void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.name;
}

std::vector<Golden> AllGoldens() {
  std::vector<Golden> goldens;
  for (const auto& entry : fs::directory_iterator(fs::path(HOLDFAST_SOURCE_DIR) / "tests" / "golden")) {
    if (!fs::exists(entry.path() / "expected.json")) continue;
    const std::string name = entry.path().filename().string();
    goldens.push_back({name + "_hf", (entry.path() / "hf").string(), entry.path()});
    if (fs::exists(entry.path() / "model.gguf")) {
      goldens.push_back({name + "_gguf", (entry.path() / "model.gguf").string(), entry.path()});
    }
  }
  std::sort(goldens.begin(), goldens.end(), [](const Golden& a, const Golden& b) { return a.name < b.name; });
  return goldens;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The values of a version 1 .npy file of little-endian f32 in C order.
std::vector<float> ReadNpy(const fs::path& path) {
  const std::string bytes = ReadFile(path);
  if (bytes.size() < 10 || bytes.compare(1, 5, "NUMPY") != 0) return {};
  const size_t header = 10 + static_cast<size_t>(static_cast<unsigned char>(bytes[8])) +
                        256 * static_cast<size_t>(static_cast<unsigned char>(bytes[9]));
  if (bytes.find("'descr': '<f4'") > header || bytes.find("'fortran_order': False") > header) return {};
  std::vector<float> values((bytes.size() - header) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(float));
  return values;
}

class GoldenTest : public testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    const auto json = nlohmann::json::parse(ReadFile(GetParam().folder / "expected.json"));
    prompt_ = json.at("prompt").get<std::vector<int32_t>>();
    greedy_ = json.at("greedy").get<std::vector<int32_t>>();
    expected_ = ReadNpy(GetParam().folder / "logits.npy");
    ASSERT_EQ(expected_.size(), prompt_.size() * json.at("vocab").get<size_t>());
    auto runner = ModelRunner::Load(GetParam().path, 2);
    ASSERT_TRUE(runner.ok()) << runner.status().message();
    runner_ = std::move(*runner);
  }

  std::vector<float> Logits(const RunOptions& options) {
    auto logits = runner_->Logits(prompt_, options);
    EXPECT_TRUE(logits.ok()) << RunName(options) << ": " << logits.status().message();
    return logits.ok() ? std::move(*logits) : std::vector<float>();
  }

  // Largest difference to transformers' logits.
  float Error(const std::vector<float>& logits) const {
    float worst = 0.0f;
    for (size_t i = 0; i < expected_.size(); ++i) {
      const float error = std::fabs(logits[i] - expected_[i]);
      if (!(error <= worst)) worst = error;  // a NaN counts as well
    }
    return worst;
  }

  // Length of the difference to transformers' logits, of their length.
  double RelativeError(const std::vector<float>& logits) const {
    double error = 0.0, all = 0.0;
    for (size_t i = 0; i < expected_.size(); ++i) {
      const double difference = static_cast<double>(logits[i]) - static_cast<double>(expected_[i]);
      error += difference * difference;
      all += static_cast<double>(expected_[i]) * static_cast<double>(expected_[i]);
    }
    return std::sqrt(error / all);
  }

  std::vector<int32_t> prompt_, greedy_;
  std::vector<float> expected_;
  std::unique_ptr<ModelRunner> runner_;
};

TEST_P(GoldenTest, LogitsAreThoseOfTransformersHoweverTheTokensAreFed) {
  const std::vector<float> one_shot = Logits({});
  ASSERT_EQ(one_shot.size(), expected_.size());
  EXPECT_LE(Error(one_shot), kTolerance);
  for (const StorageId storage : AllStorages()) {
    for (const int64_t chunk : {0, 1, 7}) {
      for (const bool with_others : {false, true}) {
        const RunOptions options{CodecId::kF32, storage, chunk, with_others};
        const std::vector<float> logits = Logits(options);
        ASSERT_EQ(logits.size(), one_shot.size());
        EXPECT_EQ(std::memcmp(logits.data(), one_shot.data(), logits.size() * sizeof(float)), 0)
            << RunName(options) << " differs in its bits; error " << Error(logits);
      }
    }
  }
}

TEST_P(GoldenTest, SixtyFourGreedyTokensAreThoseOfTransformers) {
  for (const StorageId storage : AllStorages()) {
    const auto tokens =
        runner_->Greedy(prompt_, static_cast<int64_t>(greedy_.size()), {CodecId::kF32, storage, 0, false});
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    EXPECT_EQ(*tokens, greedy_);
  }
}

TEST_P(GoldenTest, EveryCodecStaysCloseAndReproducible) {
  for (const CodecId codec : AllCodecs()) {
    const std::vector<float> one_shot = Logits({codec, StorageId::kContiguous, 0, false});
    ASSERT_EQ(one_shot.size(), expected_.size());
    // A bit less of a value is a step twice as wide. What is unrelated to the logits, or zero, is 1 and more off.
    const double limit = std::min(0.025 * std::exp2(8 - std::min(GetCodec(codec).bits, 8)), 0.9);
    EXPECT_LE(RelativeError(one_shot), limit) << CodecName(codec);
    for (const RunOptions& options : {RunOptions{codec, StorageId::kPaged, 7, false},
                                      RunOptions{codec, StorageId::kContiguous, 1, true}}) {
      const std::vector<float> logits = Logits(options);
      ASSERT_EQ(logits.size(), one_shot.size());
      EXPECT_EQ(std::memcmp(logits.data(), one_shot.data(), logits.size() * sizeof(float)), 0)
          << RunName(options);
    }
  }
}

TEST_P(GoldenTest, OneThreadGivesTheBitsOfThree) {
  const std::vector<float> two = Logits({});
  for (const int threads : {1, 3}) {
    auto runner = ModelRunner::Load(GetParam().path, threads);
    ASSERT_TRUE(runner.ok()) << runner.status().message();
    const auto logits = (*runner)->Logits(prompt_, {});
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    ASSERT_EQ(logits->size(), two.size());
    EXPECT_EQ(std::memcmp(logits->data(), two.data(), two.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(AllGoldens()),
                         [](const auto& golden) { return golden.param.name; });

}  // namespace
}  // namespace holdfast
