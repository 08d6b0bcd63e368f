// Many requests on the real models: the same tokens and log probabilities, bit for bit, whatever else runs.
#include <memory>
#include <string>
#include <vector>

#include "engine/serving_engine.h"
#include "engine/serving_testing.h"
#include "real_models.h"

namespace holdfast {
namespace {

constexpr int kRequests = 64;
constexpr int64_t kLongestPrompt = 160;
constexpr int64_t kLongestAnswer = 20;

std::unique_ptr<Engine> Load(const std::string& path, int threads) {
  EngineOptions options;
  options.threads = threads;
  auto engine = Engine::Load(path, options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

std::vector<int32_t> Text(const Engine& engine) {
  std::string text;
  for (int i = 0; text.size() < 12000; ++i) {
    text += "In the year " + std::to_string(1700 + 7 * i) + " the ship took " + std::to_string(i * i) +
            " barrels of salt north; nobody wrote down why. ";
  }
  return engine.Tokenize(text, {}).value();
}

ServingOptions Small() {
  ServingOptions options;
  options.cache.max_context = 1024;
  options.step_tokens = 128;
  return options;
}

using ServingRealTest = RealModelTest;

TEST_P(ServingRealTest, SixtyFourRequestsGetTheSameBitsHoweverTheyAreRun) {
  const auto engine = Load(path_, 2);
  const auto requests = MixedRequests(kRequests, Text(*engine), kLongestPrompt, kLongestAnswer, 17);
  std::vector<Answer> alone;
  const auto run = [&](Engine& on, const ServingOptions& options, const RunLoadOptions& load,
                       const char* how) {
    auto serving = ServingEngine::Create(on, options);
    ASSERT_TRUE(serving.ok()) << serving.status().message();
    const auto answers = Serve(**serving, requests, load);
    if (alone.empty()) alone = answers;
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(Difference(alone[i], answers[i]), "") << how << ", request " << i;
    }
    const bool roomy = options.decode_liability_tokens != 0;
    if (options.share_prefixes && roomy &&
        load.arrival_seed == 0) {  // again, on what the first time has left
      const auto warm = Serve(**serving, requests, {});
      int64_t reused = 0, prompts = 0;
      for (size_t i = 0; i < warm.size(); ++i) {
        EXPECT_EQ(Difference(alone[i], warm[i]), "") << how << " and warm, request " << i;
        reused += warm[i].receipt.reused_tokens;
        prompts += warm[i].receipt.prompt_tokens;
      }
      // Of layers with a window the last rows of a prompt may have given way to those of one that goes on.
      EXPECT_GE(reused, GetParam().name == "smollm2" ? prompts - kRequests : prompts / 2);
    }
    if (!roomy) {
      EXPECT_GT((*serving)->pool().preemptions, 0);
    }
    EXPECT_LE((*serving)->pool().allocated_bytes, (*serving)->pool().budget_bytes);
    EXPECT_EQ(dynamic_cast<ServingEngineState&>(**serving).loop().CheckInvariants().message(), "");
  };
  ServingOptions unshared = Small();
  unshared.share_prefixes = false;
  run(*engine, unshared, {.one_by_one = true}, "alone");
  run(*engine, Small(), {}, "batched");
  run(*engine, Small(), {.arrival_seed = 3}, "others arriving at random");
  ServingOptions no_cascade = Small();
  no_cascade.cascade = CascadeMode::kOff;
  run(*engine, no_cascade, {.arrival_seed = 4}, "without cascade");
  ServingOptions tight = Small();
  tight.decode_liability_tokens = 0;
  tight.budget_tokens = 256;
  tight.cache.block_tokens = 16;
  run(*engine, tight, {}, "preempted");
  run(*Load(path_, 1), Small(), {.arrival_seed = 6}, "one thread");
}

// Case 40 with the figures of its report: 565 + 1485 > 2048, and 2049.
TEST_P(ServingRealTest, OfTwoThatDoNotFitTogetherOneWaits) {
  const auto engine = Load(path_, 2);
  ServingOptions options;
  options.cache.max_context = 4096;
  options.budget_tokens = 2048;
  auto serving = ServingEngine::Create(*engine, options).value();
  std::vector<int32_t> text = Text(*engine);
  text.resize(2049, text[1]);
  const auto request = [&](size_t first, size_t n, int64_t answer) {
    ServingRequest made;
    made.tokens.assign(text.begin() + static_cast<std::ptrdiff_t>(first),
                       text.begin() + static_cast<std::ptrdiff_t>(first + n));
    made.generate = GreedyOptions(answer);
    return made;
  };
  EXPECT_EQ(serving->Submit(request(0, 2045, 8), nullptr).status().code(), StatusCode::kOutOfRange);
  auto first = serving->Submit(request(0, 561, 4), nullptr).value();
  auto second = serving->Submit(request(561, 1481, 4), nullptr).value();
  EXPECT_EQ(AnswerOf(*first).tokens.size(), 4u);
  EXPECT_EQ(AnswerOf(*second).tokens.size(), 4u);
  EXPECT_EQ(serving->pool().preemptions, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ServingRealTest, testing::ValuesIn(kRealModels), RealModelName);

}  // namespace
}  // namespace holdfast
