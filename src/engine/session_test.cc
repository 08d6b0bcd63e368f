// Sessions of tiny models: turns, batches, forks, limits.
#include <gtest/gtest.h>

#include <string>

#include "holdfast/engine.h"
#include "simd/testing_forced_isa.h"

namespace holdfast {
namespace {

constexpr const char* kFullModel = HOLDFAST_SOURCE_DIR "/tests/golden/llama_tied/model.gguf";
constexpr const char* kWindowModel = HOLDFAST_SOURCE_DIR "/tests/golden/gemma3/model.gguf";

std::unique_ptr<Engine> Load(const char* path) {
  EngineOptions options;
  options.threads = 2;
  auto engine = Engine::Load(path, options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

GenerateOptions Greedy(int64_t max_tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0.0f;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  return options;
}

std::vector<int32_t> Prompt(int n, int first = 3) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(first + (i * 5) % 90);
  return tokens;
}

std::unique_ptr<Session> NewSession(Engine& engine, const CacheOptions& options = {}) {
  return engine.NewSession(options).value();
}

std::vector<int32_t> RunToEnd(Session& session, const std::vector<int32_t>& prompt,
                              const GenerateOptions& options) {
  EXPECT_TRUE(session.Start(prompt, options).ok());
  while (!session.finished()) EXPECT_TRUE(session.Step().ok());
  return session.tokens();
}

CacheOptions With(CodecId codec, StorageId storage) {
  CacheOptions options;
  options.k_codec = options.v_codec = codec;
  options.storage = storage;
  return options;
}

CacheOptions Paged() {
  return With(CodecId::kF16, StorageId::kPaged);
}

CacheOptions Limited(int64_t max_context) {
  CacheOptions options;
  options.max_context = max_context;
  return options;
}

class EverySession : public testing::TestWithParam<const char*> {};

TEST_P(EverySession, ABatchOfSessionsGivesEachItsOwnTokens) {
  const auto engine = Load(GetParam());
  std::vector<std::vector<int32_t>> wanted;
  for (int i = 0; i < 4; ++i) {
    const auto alone = NewSession(*engine);
    wanted.push_back(RunToEnd(*alone, Prompt(5 + 13 * i, 3 + i), Greedy(10 + 3 * i)));
  }
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 4; ++i) {
    CacheOptions options;
    options.storage = i % 2 == 0 ? StorageId::kPaged : StorageId::kContiguous;
    sessions.push_back(NewSession(*engine, options));
    GenerateOptions greedy = Greedy(10 + 3 * i);
    greedy.prefill_chunk_tokens = 1 + 7 * i;
    ASSERT_TRUE(sessions.back()->Start(Prompt(5 + 13 * i, 3 + i), greedy).ok());
  }
  for (;;) {
    std::vector<Session*> running;
    for (const auto& s : sessions) {
      if (!s->finished()) running.push_back(s.get());
    }
    if (running.empty()) break;
    ASSERT_TRUE(engine->StepTogether(running).ok());
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(sessions[i]->tokens(), wanted[i]) << "session " << i;
}

TEST_P(EverySession, ASecondTurnReusesTheFirstAndEqualsACold) {
  const auto engine = Load(GetParam());
  const auto session = NewSession(*engine);
  std::vector<int32_t> turn = RunToEnd(*session, Prompt(30), Greedy(8));
  const int64_t cached = session->cached_tokens();
  turn.insert(turn.end(), {4, 5, 6, 7});
  const auto warm = RunToEnd(*session, turn, Greedy(8));
  EXPECT_EQ(session->stats().reused_tokens, cached);
  EXPECT_EQ(session->stats().prompt_tokens, static_cast<int64_t>(turn.size()));
  EXPECT_EQ(warm, RunToEnd(*NewSession(*engine), turn, Greedy(8)));
}

TEST_P(EverySession, AnUnrelatedPromptInTheSameSessionEqualsACold) {
  const auto engine = Load(GetParam());
  const auto session = NewSession(*engine);
  RunToEnd(*session, Prompt(40), Greedy(20));
  EXPECT_EQ(RunToEnd(*session, Prompt(25, 50), Greedy(8)),
            RunToEnd(*NewSession(*engine), Prompt(25, 50), Greedy(8)));
  EXPECT_EQ(session->stats().reused_tokens, 0);
}

TEST_P(EverySession, ForksGoOnAsTheirOriginWould) {
  const auto engine = Load(GetParam());
  const auto session = NewSession(*engine, Paged());
  GenerateOptions sampled = Greedy(24);
  sampled.sampling.temperature = 1.0f;
  sampled.sampling.seed = 11;
  ASSERT_TRUE(session->Start(Prompt(20), sampled).ok());
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(session->Step().ok());
  const auto fork = session->Fork().value();
  while (!session->finished()) ASSERT_TRUE(session->Step().ok());
  while (!fork->finished()) ASSERT_TRUE(fork->Step().ok());
  EXPECT_EQ(session->tokens(), fork->tokens());
}

TEST_P(EverySession, TakenBackTokensAreComputedAnewToTheSame) {
  const auto engine = Load(GetParam());
  const auto session = NewSession(*engine);
  const auto first = RunToEnd(*session, Prompt(30), Greedy(12));
  ASSERT_TRUE(session->Rewind(8).ok());
  std::vector<int32_t> again(first.begin(),
                             first.begin() + static_cast<std::ptrdiff_t>(session->cached_tokens()) + 1);
  const auto left = static_cast<int64_t>(first.size() - again.size());
  EXPECT_EQ(RunToEnd(*session, again, Greedy(left)), first);
  EXPECT_GT(session->stats().reused_tokens, 20);
}

TEST_P(EverySession, RewindingNothingChangesNothing) {
  const auto engine = Load(GetParam());
  const auto whole = RunToEnd(*NewSession(*engine), Prompt(30), Greedy(12));
  const auto session = NewSession(*engine);
  ASSERT_TRUE(session->Start(Prompt(30), Greedy(12)).ok());
  while (session->completion().size() < 5) ASSERT_TRUE(session->Step().ok());
  const auto before = session->tokens();
  ASSERT_GT(static_cast<int64_t>(before.size()), session->cached_tokens())
      << "the last one is not cached yet";
  ASSERT_TRUE(session->Rewind(0).ok());
  EXPECT_EQ(session->tokens(), before);
  while (!session->finished()) ASSERT_TRUE(session->Step().ok());
  EXPECT_EQ(session->tokens(), whole);
}

TEST_P(EverySession, PlannedBytesAreAllocatedBytes) {
  const auto engine = Load(GetParam());
  for (const StorageId storage : AllStorages()) {
    for (const CodecId codec : AllCodecs()) {
      const auto session = NewSession(*engine, With(codec, storage));
      RunToEnd(*session, Prompt(50), Greedy(5));
      const GenerationStats stats = session->stats();
      EXPECT_EQ(stats.planned_bytes, stats.allocated_bytes);
      EXPECT_LE(stats.live_bytes, stats.allocated_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EverySession, testing::Values(kFullModel, kWindowModel),
                         [](const auto& param) { return param.param == kFullModel ? "full" : "window"; });

TEST(Session, ABadStartLeavesTheSessionAsItWas) {
  const auto engine = Load(kFullModel);
  const auto session = NewSession(*engine, Limited(48));
  const auto before = RunToEnd(*session, Prompt(10), Greedy(4));
  const int64_t cached = session->cached_tokens();
  EXPECT_EQ(session->Start({}, Greedy(1)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session->Start(Prompt(49), Greedy(1)).code(), StatusCode::kOutOfRange);
  const Status vocabulary = session->Start(std::vector<int32_t>{1, 1 << 30}, Greedy(1));
  EXPECT_EQ(vocabulary.code(), StatusCode::kOutOfRange);
  EXPECT_NE(vocabulary.message().find(std::to_string(1 << 30)), std::string::npos) << vocabulary.message();
  GenerateOptions bad = Greedy(1);
  bad.sampling.top_p = 2.0f;
  EXPECT_EQ(session->Start(Prompt(3), bad).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session->tokens(), before);
  EXPECT_EQ(session->cached_tokens(), cached);
}

TEST(Session, TheContextsEndFinishesWithItsReason) {
  const auto engine = Load(kFullModel);
  const auto session = NewSession(*engine, Limited(20));
  RunToEnd(*session, Prompt(20), Greedy(-1));
  EXPECT_EQ(session->completion().size(), 1u) << "a prompt that fills the context still predicts one token";
  RunToEnd(*session, Prompt(12), Greedy(-1));
  EXPECT_EQ(session->completion().size(), 9u);
  EXPECT_FALSE(session->Step().ok());
}

TEST(Session, CancelEndsTheNextStepAndASteppedBatchGoesOn) {
  const auto engine = Load(kFullModel);
  const auto a = NewSession(*engine);
  const auto b = NewSession(*engine);
  ASSERT_TRUE(a->Start(Prompt(5), Greedy(8)).ok());
  ASSERT_TRUE(b->Start(Prompt(5), Greedy(8)).ok());
  a->Cancel();
  Session* const both[] = {a.get(), b.get()};
  const auto events = engine->StepTogether(both).value();
  EXPECT_EQ(events[0].finish, FinishReason::kCancelled);
  EXPECT_EQ(events[0].token, -1);
  EXPECT_GE(events[1].token, 0);
  EXPECT_FALSE(engine->StepTogether(both).ok()) << "a finished session is an error";
}

// A penalty this small makes any logit of a token already seen infinite, which is no number to choose by.
TEST(Session, AStepThatFailsForOneSessionTakesNothingFromTheOthers) {
  const auto engine = Load(kFullModel);
  const auto wanted = RunToEnd(*NewSession(*engine), Prompt(5), Greedy(8));
  const auto good = NewSession(*engine);
  const auto bad = NewSession(*engine);
  GenerateOptions hopeless = Greedy(8);
  hopeless.sampling.repeat_penalty = 1e-38f;
  ASSERT_TRUE(good->Start(Prompt(5), Greedy(8)).ok());
  ASSERT_TRUE(bad->Start(Prompt(90), hopeless).ok());
  for (Session* const first : {good.get(), bad.get()}) {
    Session* const both[] = {first, first == good.get() ? bad.get() : good.get()};
    EXPECT_EQ(engine->StepTogether(both).status().code(), StatusCode::kDataLoss);
    EXPECT_EQ(good->cached_tokens(), 0);
    EXPECT_EQ(bad->cached_tokens(), 0);
  }
  while (!good->finished()) ASSERT_TRUE(good->Step().ok());
  EXPECT_EQ(good->tokens(), wanted);
  EXPECT_EQ(RunToEnd(*bad, Prompt(5), Greedy(8)), wanted) << "a new start makes it good again";
}

TEST(Session, AWindowThatAFailedStepHasDamagedStartsAfresh) {
  const auto engine = Load(kWindowModel);
  const auto wanted = RunToEnd(*NewSession(*engine), Prompt(60), Greedy(8));
  CacheOptions options;
  options.rewind_tokens = 0;  // nothing of a step can be taken back once the window is full
  const auto session = NewSession(*engine, options);
  GenerateOptions hopeless = Greedy(8);
  hopeless.sampling.repeat_penalty = 1e-38f;
  ASSERT_TRUE(session->Start(Prompt(90), hopeless).ok());
  EXPECT_EQ(session->Step().status().code(), StatusCode::kDataLoss);
  EXPECT_NE(session->Step().status().message().find("lost rows"), std::string::npos);
  EXPECT_EQ(RunToEnd(*session, Prompt(60), Greedy(8)), wanted);
}

TEST(Session, ARefusedBatchDoesNotSwallowACancelledSessionsEnd) {
  const auto engine = Load(kFullModel);
  const auto cancelled = NewSession(*engine);
  const auto never_started = NewSession(*engine);
  ASSERT_TRUE(cancelled->Start(Prompt(5), Greedy(8)).ok());
  cancelled->Cancel();
  Session* const both[] = {cancelled.get(), never_started.get()};
  EXPECT_FALSE(engine->StepTogether(both).ok());
  EXPECT_FALSE(cancelled->finished());
  EXPECT_EQ(cancelled->Step().value().finish, FinishReason::kCancelled);
}

TEST(Session, ASessionOfAnotherEngineOrTwiceInABatchIsRefused) {
  const auto engine = Load(kFullModel);
  const auto other = Load(kFullModel);
  const auto a = NewSession(*engine);
  const auto foreign = NewSession(*other);
  ASSERT_TRUE(a->Start(Prompt(5), Greedy(8)).ok());
  ASSERT_TRUE(foreign->Start(Prompt(5), Greedy(8)).ok());
  Session* const mixed[] = {a.get(), foreign.get()};
  EXPECT_EQ(engine->StepTogether(mixed).status().code(), StatusCode::kInvalidArgument);
  Session* const twice[] = {a.get(), a.get()};
  EXPECT_EQ(engine->StepTogether(twice).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(a->Step().ok()) << "a refused batch loses nothing";
}

TEST(EngineLoad, AnInstructionSetThatThisProcessorLacksIsNotPassedOverInSilence) {
  const ForcedIsa forced("avx9");
  const Status refused = Engine::Load(kFullModel, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("\"avx9\""), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace holdfast
