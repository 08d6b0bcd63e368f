// Teacher-forced on llama.cpp's own greedy tokens: our top token is theirs wherever their first choice is
// clear.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model_runner.h"
#include "real_models.h"

namespace holdfast {
namespace {

constexpr double kClearGap = 1.0;
// Of all steps of both models. The file's weights dequantised to f32, products in f32, agree with llama.cpp
// in 98.6 % of SmolLM2's steps and 96.9 % of Gemma's (half of the others in its Chinese prompt), so asking
// for more of Gemma alone would ask for llama.cpp's errors.
constexpr double kSameTopShare = 0.97;

struct Agreement {
  int64_t steps = 0, same = 0;
  double share() const { return static_cast<double>(same) / static_cast<double>(steps); }
};

void Compare(const RealModel& model, const std::string& path, Agreement& total) {
  std::ifstream in(std::string(HOLDFAST_SOURCE_DIR) + "/tests/expectations/greedy_" + model.name + ".json");
  ASSERT_TRUE(in.good());
  const auto expectations = nlohmann::json::parse(in);
  auto runner = ModelRunner::Load(path, 2);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const auto vocab = static_cast<size_t>((*runner)->model().config().vocab_size);
  Agreement agreement;
  for (const auto& prompt : expectations.at("prompts")) {
    const auto theirs = prompt.at("tokens").get<std::vector<int32_t>>();
    const auto gaps = prompt.at("gaps").get<std::vector<double>>();
    ASSERT_EQ(gaps.size(), theirs.size());
    auto text = prompt.at("ids").get<std::vector<int32_t>>();
    text.insert(text.end(), theirs.begin(), theirs.end());
    const auto logits = (*runner)->LastLogits(text, static_cast<int64_t>(theirs.size()) + 1,
                                              {CodecId::kF16, StorageId::kContiguous, 256, false});
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    for (size_t i = 0; i < theirs.size(); ++i) {
      const int32_t ours = ArgMax(std::span<const float>(*logits).subspan(i * vocab, vocab));
      ++agreement.steps;
      agreement.same += ours == theirs[i];
      if (gaps[i] > kClearGap) {
        EXPECT_EQ(ours, theirs[i]) << model.name << ", " << prompt.at("name") << ", step " << i
                                   << ", their gap " << gaps[i];
      }
    }
  }
  std::printf("%s: %lld of %lld steps have llama.cpp's top token (%.2f %%)\n", model.name.c_str(),
              static_cast<long long>(agreement.same), static_cast<long long>(agreement.steps),
              100.0 * agreement.share());
  total.steps += agreement.steps;
  total.same += agreement.same;
}

TEST(GreedyRealTest, OurTopTokenIsThatOfLlamaCpp) {
  Agreement total;
  for (const RealModel& model : kRealModels) {
    const std::string path = RealModelPath(model);
    if (path.empty()) GTEST_SKIP() << "the model store does not hold " << model.name;
    ASSERT_NO_FATAL_FAILURE(Compare(model, path, total));
  }
  ASSERT_GT(total.steps, 0);
  EXPECT_GE(total.share(), kSameTopShare);
}

}  // namespace
}  // namespace holdfast
