// Teacher-forced on llama.cpp's own greedy tokens: our top token is theirs wherever their first choice is
// clear.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model_runner.h"
#include "real_models.h"

namespace holdfast {
namespace {

constexpr double kClearGap = 1.0;
constexpr double kSameTopShare = 0.97;

using GreedyRealTest = RealModelTest;

TEST_P(GreedyRealTest, OurTopTokenIsTheirs) {
  std::ifstream in(std::string(HOLDFAST_SOURCE_DIR) + "/tests/expectations/greedy_" + GetParam().name +
                   ".json");
  ASSERT_TRUE(in.good());
  const auto expectations = nlohmann::json::parse(in);
  auto runner = ModelRunner::Load(path_, 2);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const auto vocab = static_cast<size_t>((*runner)->model().config().vocab_size);
  int64_t steps = 0, same = 0;
  for (const auto& prompt : expectations.at("prompts")) {
    const auto ids = prompt.at("ids").get<std::vector<int32_t>>();
    const auto theirs = prompt.at("tokens").get<std::vector<int32_t>>();
    const auto gaps = prompt.at("gaps").get<std::vector<double>>();
    ASSERT_EQ(gaps.size(), theirs.size());
    std::vector<int32_t> text = ids;
    text.insert(text.end(), theirs.begin(), theirs.end());
    // The prompt in chunks, so that a long one needs no logits of its own in memory.
    const auto logits = (*runner)->LastLogits(text, static_cast<int64_t>(theirs.size()) + 1,
                                              {CodecId::kF16, StorageId::kContiguous, 256, false});
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    for (size_t i = 0; i < theirs.size(); ++i) {
      const int32_t ours = ArgMax(std::span<const float>(*logits).subspan(i * vocab, vocab));
      ++steps;
      same += ours == theirs[i];
      if (gaps[i] > kClearGap) {
        EXPECT_EQ(ours, theirs[i]) << prompt.at("name") << ", step " << i << ", their gap " << gaps[i];
      }
    }
  }
  ASSERT_GT(steps, 0);
  const double share = static_cast<double>(same) / static_cast<double>(steps);
  RecordProperty("same_top_share", std::to_string(share));
  std::printf("%s: %lld of %lld steps have llama.cpp's top token (%.2f %%)\n", GetParam().name.c_str(),
              static_cast<long long>(same), static_cast<long long>(steps), 100.0 * share);
  EXPECT_GE(share, kSameTopShare);
}

INSTANTIATE_TEST_SUITE_P(All, GreedyRealTest, testing::ValuesIn(kRealModels), RealModelName);

}  // namespace
}  // namespace holdfast
