// The real models' logits, bit for bit the same however their tokens are fed.
#include <cstring>
#include <string>
#include <vector>

#include "model_runner.h"
#include "real_models.h"

namespace holdfast {
namespace {

// Past a chunk of attention (256 positions), not a multiple of any chunk below.
constexpr int64_t kTokens = 300;
constexpr int64_t kLogits = 130;  // of the last positions; a whole row of a large vocabulary is a megabyte

std::vector<int32_t> Text(const ModelRunner& runner) {
  std::string text;
  for (int i = 0; text.size() < 6000; ++i) {
    text += "In the year " + std::to_string(1700 + 7 * i) + " the ship took " + std::to_string(i * i) +
            " barrels of salt north; nobody wrote down why. ";
  }
  auto tokens = runner.loaded().tokenizer->Encode(text, {}).value();
  tokens.resize(kTokens);
  return tokens;
}

using ReproducibleRealTest = RealModelTest;

TEST_P(ReproducibleRealTest, LogitsHaveTheSameBitsHoweverTheTokensAreFed) {
  auto two_threads = ModelRunner::Load(path_, 2);
  ASSERT_TRUE(two_threads.ok()) << two_threads.status().message();
  auto one_thread = ModelRunner::Load(path_, 1);
  ASSERT_TRUE(one_thread.ok()) << one_thread.status().message();
  const auto tokens = Text(**two_threads);
  for (const CodecId codec : AllCodecs()) {
    const RunOptions one_shot{codec, StorageId::kContiguous, 0, false};
    const auto expected = (*two_threads)->LastLogits(tokens, kLogits, one_shot);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const auto expect_same = [&](ModelRunner& runner, const char* threads, const RunOptions& options) {
      const auto logits = runner.LastLogits(tokens, kLogits, options);
      ASSERT_TRUE(logits.ok()) << logits.status().message();
      EXPECT_EQ(std::memcmp(logits->data(), expected->data(), expected->size() * sizeof(float)), 0)
          << RunName(options) << ", " << threads;
    };
    expect_same(**two_threads, "two threads", {codec, StorageId::kPaged, 0, false});
    expect_same(**two_threads, "two threads", {codec, StorageId::kContiguous, 1, false});
    expect_same(**two_threads, "two threads", {codec, StorageId::kPaged, 7, false});
    expect_same(**two_threads, "two threads", {codec, StorageId::kContiguous, 64, false});
    expect_same(**two_threads, "two threads", {codec, StorageId::kPaged, 64, true});
    expect_same(**two_threads, "two threads", {codec, StorageId::kContiguous, 7, true});
    expect_same(**one_thread, "one thread", one_shot);
    expect_same(**one_thread, "one thread", {codec, StorageId::kPaged, 64, true});
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReproducibleRealTest, testing::ValuesIn(kRealModels), RealModelName);

}  // namespace
}  // namespace holdfast
