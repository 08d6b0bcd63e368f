// How far quantised products move a real model from its exact weights: no further than llama.cpp's do.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model_runner.h"
#include "real_models.h"

namespace holdfast {
namespace {

constexpr int64_t kTokens = 512;
constexpr size_t kTextOffset = 200'000;

using DivergenceRealTest = RealModelTest;

TEST_P(DivergenceRealTest, LogitsLieNearerToTheExactOnesThanThoseOfLlamaCpp) {
  const std::string path = std::string(HOLDFAST_SOURCE_DIR) + "/../shared/data/wikitext2/test.txt";
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) GTEST_SKIP() << path << " is not here";
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ASSERT_GT(text.size(), kTextOffset);
  const double limit = GetParam().name == "smollm2" ? 0.0025 : 0.0044;

  std::vector<float> exact;
  std::vector<int32_t> tokens;
  int64_t vocab = 0;
  {
    auto runner = ModelRunner::Load(path_, 2, /*exact=*/true);
    ASSERT_TRUE(runner.ok()) << runner.status().message();
    vocab = (*runner)->model().config().vocab_size;
    tokens = (*runner)->loaded().tokenizer->Encode(text.substr(kTextOffset, 8 * kTokens), {}).value();
    ASSERT_GE(tokens.size(), static_cast<size_t>(kTokens));
    tokens.resize(kTokens);
    auto logits =
        (*runner)->LastLogits(tokens, kTokens / 2, {CodecId::kF32, StorageId::kContiguous, 128, false});
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    exact = std::move(*logits);
  }
  auto runner = ModelRunner::Load(path_, 2);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const auto logits =
      (*runner)->LastLogits(tokens, kTokens / 2, {CodecId::kF16, StorageId::kContiguous, 128, false});
  ASSERT_TRUE(logits.ok()) << logits.status().message();
  const double divergence = MeanKlDivergence(exact, *logits, vocab);
  std::printf("%s: mean KL divergence %.6f nats, at most %.4f wanted\n", GetParam().name.c_str(), divergence,
              limit);
  EXPECT_LE(divergence, limit);
  EXPECT_GT(divergence, 0.0);
}

INSTANTIATE_TEST_SUITE_P(All, DivergenceRealTest, testing::ValuesIn(kRealModels), RealModelName);

}  // namespace
}  // namespace holdfast
