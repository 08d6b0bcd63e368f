// Many requests of tiny models on one budget: the same answers whatever else runs, limits, ends, memory.
#include "engine/serving_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/logprobs.h"
#include "engine/serving_testing.h"

namespace holdfast {
namespace {

constexpr const char* kFullModel = HOLDFAST_SOURCE_DIR "/tests/golden/llama_tied/model.gguf";
constexpr const char* kMixedModel = HOLDFAST_SOURCE_DIR "/tests/golden/gemma3/model.gguf";
constexpr const char* kWindowModel = HOLDFAST_SOURCE_DIR "/tests/golden/mistral_window/hf";

std::unique_ptr<Engine> Load(const char* path, int threads = 2) {
  EngineOptions options;
  options.threads = threads;
  auto engine = Engine::Load(path, options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

std::unique_ptr<ServingEngine> Make(Engine& engine, const ServingOptions& options) {
  auto serving = ServingEngine::Create(engine, options);
  EXPECT_TRUE(serving.ok()) << serving.status().message();
  return std::move(serving).value();
}

ServingLoop& LoopOf(ServingEngine& serving) {
  return dynamic_cast<ServingEngineState&>(serving).loop();
}

ServingOptions Small() {
  ServingOptions options;
  options.step_tokens = 48;
  options.cache.block_tokens = 16;
  return options;
}

// Tokens of no meaning; a tiny model says something about any.
std::vector<int32_t> Text() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 1200; ++i) tokens.push_back(3 + (i * i + 11 * i) % 250);
  return tokens;
}

ServingRequest Request(int n, int first, int64_t max_tokens) {
  ServingRequest request;
  for (int i = 0; i < n; ++i) request.tokens.push_back(first + (i * 5) % 90);
  request.generate = GreedyOptions(max_tokens);
  return request;
}

Answer Ask(ServingEngine& serving, const ServingRequest& request) {
  auto served = serving.Submit(request, nullptr);
  EXPECT_TRUE(served.ok()) << served.status().message();
  return AnswerOf(**served);
}

void ExpectSame(const std::vector<Answer>& expected, const std::vector<Answer>& got, const char* how) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(Difference(expected[i], got[i]), "") << how << ", request " << i;
}

// A budget for the scratch of these options and the rows of so many sequences of so many tokens.
int64_t BudgetFor(Engine& engine, const ServingOptions& options, int sequences, int64_t tokens) {
  const auto whole = Make(engine, options);
  const ServingLoop& loop = LoopOf(*whole);
  const int64_t rows = PlanCache(loop.config(), tokens).value().total_bytes();
  return loop.scratch_limit_bytes() + sequences * rows + rows / 4;
}

class EveryModelServed : public testing::TestWithParam<const char*> {};

TEST_P(EveryModelServed, SixtyFourRequestsGetTheSameBitsHoweverTheyAreRun) {
  const auto engine = Load(GetParam());
  const std::vector<int32_t> text = Text();
  const auto requests = MixedRequests(64, text, 120, 24, 7);
  ServingOptions alone = Small();
  alone.share_prefixes = false;
  alone.max_running = 1;
  const auto expected = Serve(*Make(*engine, alone), requests, {.one_by_one = true});
  const auto check = [&](Engine& on, const ServingOptions& options, const RunLoadOptions& load,
                         const char* how, int64_t* preemptions = nullptr) {
    const auto serving = Make(on, options);
    ExpectSame(expected, Serve(*serving, requests, load), how);
    EXPECT_EQ(LoopOf(*serving).CheckInvariants().message(), "") << how;
    if (preemptions != nullptr) *preemptions = serving->pool().preemptions;
  };
  check(*engine, Small(), {}, "batched");
  check(*engine, Small(), {.arrival_seed = 3}, "others arriving at random");
  ServingOptions unshared = Small();
  unshared.share_prefixes = false;
  unshared.max_running = 24;
  check(*engine, unshared, {.arrival_seed = 4}, "batched, nothing shared");
  ServingOptions tight = Small();
  tight.decode_liability_tokens = 0;
  tight.budget_bytes = BudgetFor(*engine, tight, 2, 144);
  int64_t preemptions = 0;
  // All at once: were they to arrive at random, a slow machine might never have two of them run.
  check(*engine, tight, {}, "preempted for want of bytes", &preemptions);
  EXPECT_GT(preemptions, 0);
  tight.budget_bytes = 0;
  tight.budget_tokens = 320;
  check(*engine, tight, {}, "preempted for want of tokens", &preemptions);
  EXPECT_GT(preemptions, 0);
  const auto one_thread = Load(GetParam(), 1);
  check(*one_thread, Small(), {.arrival_seed = 6}, "one thread");
}

TEST_P(EveryModelServed, AWarmPrefixChangesNoBitAndEvaluatesOneToken) {
  const auto engine = Load(GetParam());
  const auto requests = MixedRequests(24, Text(), 150, 12, 9);
  ServingOptions unshared = Small();
  unshared.share_prefixes = false;
  const auto cold = Serve(*Make(*engine, unshared), requests, {});
  const auto other = Load(GetParam());
  const auto shared = Make(*other, Small());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(Difference(cold[i], Ask(*shared, requests[i])), "")
        << "on what others have left, request " << i;
    const auto serving = Make(*engine, Small());
    EXPECT_EQ(Difference(cold[i], Ask(*serving, requests[i])), "") << "request " << i;
    const Answer warm = Ask(*serving, requests[i]);
    EXPECT_EQ(Difference(cold[i], warm), "") << "warm, request " << i;
    EXPECT_EQ(warm.receipt.prompt_tokens, static_cast<int64_t>(requests[i].tokens.size()));
    EXPECT_EQ(warm.receipt.reused_tokens, warm.receipt.prompt_tokens - 1) << warm.receipt.message;
    EXPECT_EQ(warm.receipt.miss, MissCause::kNone);
  }
  EXPECT_GT(shared->pool().hits, 5);
  EXPECT_GT(shared->pool().reused_tokens, 200);
}

TEST_P(EveryModelServed, SparsePagesAreTheSameAloneBatchedOnAWarmPrefixAndPreempted) {
  const auto engine = Load(GetParam());
  const auto requests = MixedRequests(20, Text(), 300, 20, 8);
  const auto sparse = [] {
    ServingOptions options = Small();
    options.cache.sparse_pages = kMinSparsePages;  // 128 rows
    return options;
  };
  if (GetParam() == kWindowModel) {
    EXPECT_EQ(ServingEngine::Create(*engine, sparse()).status().message(),
              "cache: sparse_pages is 8 but every layer is a window; pages are chosen by layers that see all "
              "positions");
    return;
  }
  ServingOptions alone = sparse();
  alone.share_prefixes = false;
  alone.max_running = 1;
  const auto expected = Serve(*Make(*engine, alone), requests, {.one_by_one = true});
  auto serving = Make(*engine, sparse());
  ExpectSame(expected, Serve(*serving, requests, {}), "batched");
  ExpectSame(expected, Serve(*serving, requests, {.arrival_seed = 3}), "warm");
  EXPECT_GT(serving->pool().reused_tokens, 2000);
  serving.reset();
  ServingOptions tight = sparse();
  tight.decode_liability_tokens = 0;
  tight.budget_bytes = BudgetFor(*engine, tight, 2, 330);
  serving = Make(*engine, tight);
  ExpectSame(expected, Serve(*serving, requests, {}), "short of bytes");
  EXPECT_LE(serving->pool().allocated_bytes, tight.budget_bytes);
  serving.reset();
  const auto one_thread = Load(GetParam(), 1);
  ExpectSame(expected, Serve(*Make(*one_thread, sparse()), requests, {.arrival_seed = 5}), "one thread");
  ServingOptions dense = Small();
  const auto exact = Serve(*Make(*engine, dense), requests, {});
  size_t differ = 0;
  for (size_t i = 0; i < exact.size(); ++i) differ += Difference(expected[i], exact[i]).empty() ? 0 : 1;
  EXPECT_GT(differ, 0u) << "nothing was left out";
}

TEST_P(EveryModelServed, ASessionAndAServedRequestSayTheSame) {
  const auto engine = Load(GetParam());
  const auto session = engine->NewSession({}).value();
  const auto requests = MixedRequests(10, Text(), 100, 20, 12);
  std::vector<std::vector<int32_t>> wanted;
  for (const ServingRequest& request : requests) {
    ASSERT_TRUE(session->Start(request.tokens, request.generate).ok());
    while (!session->finished()) ASSERT_TRUE(session->Step().ok());
    wanted.emplace_back(session->completion().begin(), session->completion().end());
  }
  const auto got = Serve(*Make(*engine, Small()), requests, {});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].tokens, wanted[i]) << "request " << i;
}

TEST_P(EveryModelServed, APromptsLogprobsAreThoseOfItsLogitsWhateverIsStoredOrRuns) {
  const auto engine = Load(GetParam());
  std::vector<int32_t> prompt = Text();
  prompt.resize(101);
  const auto vocab = static_cast<size_t>(engine->info().vocab_size);
  std::vector<TokenLogprobs> expected;
  std::vector<float> weights;
  const auto keep = [&](int64_t first, int64_t count, const float* logits) {
    for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
      const size_t next = static_cast<size_t>(first) + row + 1;
      if (next < prompt.size())
        expected.push_back(LogprobsOf({logits + row * vocab, vocab}, prompt[next], 3, weights));
    }
  };
  ASSERT_TRUE(engine->Logits(prompt, {}, {}, keep).ok());
  ServingOptions tight = Small();
  tight.decode_liability_tokens = 0;
  tight.budget_tokens = 320;
  tight.max_running = 3;  // so many rows of logits at a time
  const auto serving = Make(*engine, tight);
  ServingRequest request;
  request.tokens = prompt;
  request.generate = GreedyOptions(60);
  request.top_logprobs = 3;
  const Answer plain = Ask(*serving, request);
  request.prompt_logprobs = true;
  std::vector<std::unique_ptr<ServedRequest>> served;
  for (int i = 0; i < 5; ++i) served.push_back(serving->Submit(request, nullptr).value());
  for (const auto& one : served) {
    const Answer answer = AnswerOf(*one);
    EXPECT_EQ(Difference(plain, answer), "");
    EXPECT_EQ(answer.receipt.reused_tokens, 0);
    EXPECT_EQ(answer.receipt.miss, MissCause::kDisabled);
    const auto got = one->TakePromptLogprobs();
    ASSERT_EQ(got.size(), prompt.size() - 1);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].token.token, expected[i].chosen.token);
      EXPECT_EQ(got[i].token.logprob, expected[i].chosen.logprob) << "token " << i + 1;
      for (size_t k = 0; k < 3; ++k) EXPECT_EQ(got[i].top.at(k).logprob, expected[i].top[k].logprob);
    }
  }
  EXPECT_GT(serving->pool().preemptions, 0);
  EXPECT_EQ(LoopOf(*serving).CheckInvariants().message(), "");
  request.prompt_logprobs = false;
  EXPECT_EQ(Ask(*serving, request).receipt.reused_tokens, 100) << "what they computed is stored";
  request.prompt_logprobs = true;
  request.top_logprobs = -1;
  EXPECT_EQ(serving->Submit(request, nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(EveryModelServed, MemoryStaysWithinTheBudgetAtEveryMoment) {
  const auto engine = Load(GetParam());
  ServingOptions options = Small();
  options.budget_bytes = BudgetFor(*engine, options, 3, 200);
  const auto serving = Make(*engine, options);
  std::atomic<bool> done{false};
  int64_t most = 0;
  std::thread watcher([&] {
    while (!done.load()) {
      const PoolSnapshot pool = serving->pool();
      most = std::max(most, pool.allocated_bytes);
      EXPECT_LE(pool.allocated_bytes, pool.budget_bytes);
      EXPECT_EQ(pool.blocks.free + pool.blocks.live + pool.blocks.idle, pool.blocks.total);
      std::this_thread::yield();
    }
  });
  const auto answers = Serve(*serving, MixedRequests(48, Text(), 150, 30, 5), {.arrival_seed = 2});
  done = true;
  watcher.join();
  for (const Answer& answer : answers) EXPECT_TRUE(answer.error.ok()) << answer.error.message();
  EXPECT_GT(most, serving->pool().scratch_bytes);
  EXPECT_EQ(LoopOf(*serving).CheckInvariants().message(), "");
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModelServed, testing::Values(kFullModel, kMixedModel, kWindowModel),
                         [](const auto& param) {
                           return param.param == kFullModel    ? "full"
                                  : param.param == kMixedModel ? "mixed"
                                                               : "window";
                         });

TEST(Serving, StopStringsEndAnAnswerWhereASessionWouldEndIt) {
  const auto engine = Load(kFullModel);
  ASSERT_TRUE(engine->info().has_tokenizer);
  const auto other = Load(kFullModel);  // while one serves, nobody else steps it
  const auto session = other->NewSession({}).value();
  const auto serving = Make(*engine, Small());
  ServingRequest request = Request(20, 3, 60);
  request.generate.sampling.temperature = 1.0f;
  request.generate.sampling.seed = 4;
  const Answer whole = Ask(*serving, request);
  ASSERT_GT(whole.text.size(), 12u);
  for (const size_t at : {whole.text.size() / 3, whole.text.size() / 2}) {
    request.generate.stop = {whole.text.substr(at, 3), "never said by anyone"};
    ASSERT_TRUE(session->Start(request.tokens, request.generate).ok());
    std::string text;
    while (!session->finished()) text += session->Step().value().text;
    const Answer answer = Ask(*serving, request);
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    EXPECT_EQ(answer.text, text);
    EXPECT_EQ(answer.tokens, std::vector<int32_t>(session->completion().begin(), session->completion().end()))
        << "tokens drawn before the stop string was noticed are not told";
  }
  EXPECT_EQ(serving->metrics().requests_finished[static_cast<size_t>(FinishReason::kStop)], 2);
}

// Half a character at the end of an answer becomes U+FFFD there, which may be a stop string too.
TEST(Serving, AStopStringThatTheEndOfTheAnswerBringsIsWhyItEnds) {
  const auto engine = Load(kFullModel);
  const auto other = Load(kFullModel);
  const auto session = other->NewSession({}).value();
  const auto serving = Make(*engine, Small());
  ServingRequest request = Request(20, 3, 1);
  for (int32_t token = 0; token < engine->info().vocab_size; ++token) {
    if (engine->TokenPiece(token).value() == "\xc3") request.generate.sampling.logit_bias = {{token, 100.0f}};
  }
  ASSERT_FALSE(request.generate.sampling.logit_bias.empty());
  const Answer cut = Ask(*serving, request);
  EXPECT_EQ(cut.text, "\ufffd");
  EXPECT_EQ(cut.finish, FinishReason::kLength);
  request.generate.stop = {"\ufffd"};
  const Answer stopped = Ask(*serving, request);
  EXPECT_EQ(stopped.text, "");
  EXPECT_EQ(stopped.finish, FinishReason::kStop);
  ASSERT_TRUE(session->Start(request.tokens, request.generate).ok());
  EXPECT_EQ(session->Step().value().finish, FinishReason::kStop);
}

TEST(Serving, AnAnswerOfNoTokensIsAnEndAlone) {
  const auto engine = Load(kFullModel);
  const auto serving = Make(*engine, Small());
  const Answer answer = Ask(*serving, Request(30, 3, 0));
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_EQ(Ask(*serving, Request(30, 3, 1)).receipt.reused_tokens, 29)
      << "the prompt was computed all the same";
}

TEST(Serving, TheContextsEndFinishesWithItsReason) {
  const auto engine = Load(kFullModel);
  ServingOptions options = Small();
  options.cache.max_context = 40;
  const auto serving = Make(*engine, options);
  const Answer answer = Ask(*serving, Request(30, 3, -1));
  EXPECT_EQ(answer.finish, FinishReason::kContext);
  EXPECT_EQ(answer.tokens.size(), 10u);
  EXPECT_EQ(Difference(answer, Ask(*serving, Request(30, 3, 10))), "another text or end")
      << "the same tokens, but for the reason";
  EXPECT_EQ(Ask(*serving, Request(40, 3, 0)).finish, FinishReason::kLength);
}

TEST(Serving, LimitsAreOfWhatIsServed) {
  const auto engine = Load(kFullModel);
  ServingOptions options = Small();
  options.cache.max_context = 100;
  options.max_running = 3;
  options.max_queued = 2;
  EXPECT_EQ(Make(*engine, options)->limits().context_tokens, 100);
  EXPECT_EQ(Make(*engine, options)->limits().requests, 5);
  options.budget_tokens = 64;
  EXPECT_EQ(Make(*engine, options)->limits().context_tokens, 64);
}

TEST(Serving, RequestsThatComeTogetherAreTakenAllOrNone) {
  const auto engine = Load(kFullModel);
  ServingOptions options = Small();
  options.max_running = 2;
  options.max_queued = 0;
  options.cache.max_context = 400;
  const auto serving = Make(*engine, options);
  const auto submit = [&](const std::vector<ServingRequest>& requests) {
    return serving->SubmitTogether(requests, nullptr);
  };
  const ServingRequest fits = Request(20, 3, 300), too_long = Request(20, 3, 381);
  EXPECT_EQ(submit({fits, fits, fits}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(submit({fits, too_long}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(serving->metrics().requests_refused, 5);
  {
    auto both = submit({fits, fits});
    ASSERT_TRUE(both.ok()) << "nothing of those that were refused is left: " << both.status().message();
    EXPECT_EQ(submit({fits}).status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(Difference(AnswerOf(*both->at(0)), AnswerOf(*both->at(1))), "");
  }
  auto one = submit({fits});
  EXPECT_EQ(submit({fits, fits}).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(submit({fits}).ok());
}

TEST(Serving, AnotherNamespacesPrefixIsCountedAndNotTold) {
  const auto engine = Load(kFullModel);
  const auto serving = Make(*engine, Small());
  ServingRequest request = Request(60, 3, 2);
  request.name_space = "a";
  const Receipt first = Ask(*serving, request).receipt;
  request.name_space = "b";
  const Receipt second = Ask(*serving, request).receipt;
  EXPECT_EQ(second.miss, first.miss);
  EXPECT_EQ(second.message, first.message);
  EXPECT_EQ(second.position, first.position);
  EXPECT_EQ(serving->pool().misses[static_cast<size_t>(MissCause::kNew)], 1);
  EXPECT_EQ(serving->pool().misses[static_cast<size_t>(MissCause::kOtherNamespace)], 1);
}

TEST(Serving, WhatCanNeverWorkIsRefusedBeforeAnyWork) {
  const auto engine = Load(kFullModel);
  ServingOptions options = Small();
  options.cache.max_context = 64;
  const auto serving = Make(*engine, options);
  const auto refused = [&](const ServingRequest& request) {
    const auto served = serving->Submit(request, nullptr);
    EXPECT_FALSE(served.ok());
    return served.status();
  };
  EXPECT_EQ(refused(Request(0, 3, 1)).code(), StatusCode::kInvalidArgument);
  const Status longer = refused(Request(65, 3, 1));
  EXPECT_EQ(longer.code(), StatusCode::kOutOfRange);
  EXPECT_NE(longer.message().find("65"), std::string::npos) << longer.message();
  EXPECT_EQ(refused(Request(60, 3, 6)).code(), StatusCode::kOutOfRange);
  ServingRequest bad = Request(5, 3, 1);
  bad.tokens[2] = 1 << 30;
  EXPECT_EQ(refused(bad).code(), StatusCode::kOutOfRange);
  bad = Request(5, 3, 1);
  bad.top_logprobs = 21;
  EXPECT_NE(refused(bad).message().find("top_logprobs is 21"), std::string::npos);
  bad = Request(5, 3, 1);
  bad.generate.sampling.logit_bias = {{100000, 1.0f}};
  EXPECT_EQ(refused(bad).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(serving->metrics().requests_refused, 6);
  EXPECT_EQ(serving->metrics().steps, 0);
}

TEST(Serving, AnEngineServesOnceAtATimeAndStepsNothingElseMeanwhile) {
  const auto engine = Load(kFullModel);
  const auto session = engine->NewSession({}).value();
  ASSERT_TRUE(session->Start(std::vector<int32_t>{5, 6, 7}, GreedyOptions(4)).ok());
  const std::vector<int32_t> tokens = {5, 6, 7};
  const auto logits = [&] { return engine->Logits(tokens, {}, {}, [](int64_t, int64_t, const float*) {}); };
  {
    const auto serving = Make(*engine, Small());
    EXPECT_EQ(ServingEngine::Create(*engine, Small()).status().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(session->Step().status().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(logits().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(Ask(*serving, MixedRequests(1, Text(), 20, 4, 3)[0]).error.message(), "");
  }
  EXPECT_TRUE(session->Step().ok()) << "nothing was lost";
  EXPECT_TRUE(logits().ok());
  ServingOptions bad = Small();
  bad.budget_bytes = 1000;
  EXPECT_FALSE(ServingEngine::Create(*engine, bad).ok());
  EXPECT_TRUE(ServingEngine::Create(*engine, Small()).ok()) << "one that could not be made claims nothing";
}

TEST(Serving, BadOptionsAreRefusedByName) {
  const auto engine = Load(kFullModel);
  const auto message = [&](auto change) {
    ServingOptions options;
    change(options);
    const auto serving = ServingEngine::Create(*engine, options);
    EXPECT_FALSE(serving.ok());
    return serving.status().message();
  };
  const auto has = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  EXPECT_TRUE(has(message([](auto& o) { o.max_running = 0; }), "max_running is 0"));
  EXPECT_TRUE(has(message([](auto& o) { o.step_tokens = 7; }), "step_tokens is 7"));
  EXPECT_TRUE(has(message([](auto& o) { o.max_queued = -1; }), "max_queued is -1"));
  EXPECT_TRUE(has(message([](auto& o) { o.prefix_ttl_ms = -1; }), "prefix_ttl_ms is -1"));
  EXPECT_TRUE(has(message([](auto& o) { o.cache.two_phase = true; }), "two_phase"));
  EXPECT_TRUE(has(message([](auto& o) { o.budget_bytes = 1000; }), "1000"));
}

TEST(Serving, AFullQueueRefusesAndDrainingRefusesAll) {
  const auto engine = Load(kFullModel);
  ServingOptions options = Small();
  options.max_running = 1;
  options.max_queued = 3;
  const auto serving = Make(*engine, options);
  std::vector<std::unique_ptr<ServedRequest>> running;
  Status refused;
  for (int i = 0; i < 100 && refused.ok(); ++i) {
    auto served = serving->Submit(Request(20, 3 + i, 400), nullptr);
    if (served.ok()) {
      running.push_back(std::move(*served));
    } else {
      refused = served.status();
    }
  }
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(running.size(), 4u);
  EXPECT_EQ(serving->Submit(Request(20, 3, 100'000), nullptr).status().code(), StatusCode::kOutOfRange)
      << "it need not try again";
  EXPECT_FALSE(serving->Drain(0)) << "some still run";
  EXPECT_EQ(serving->Submit(Request(5, 3, 1), nullptr).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(serving->Drain(60'000));
  for (const auto& request : running) EXPECT_EQ(AnswerOf(*request).tokens.size(), 400u);
}

TEST(Serving, ARequestWhoseTokensCannotBeDrawnEndsAloneWithTheReason) {
  const auto engine = Load(kFullModel);
  const auto serving = Make(*engine, Small());
  ServingRequest hopeless = Request(40, 3, 8);
  hopeless.generate.sampling.repeat_penalty = 1e-38f;
  const Answer expected = Ask(*serving, Request(25, 9, 12));
  auto bad = serving->Submit(hopeless, nullptr).value();
  auto good = serving->Submit(Request(25, 9, 12), nullptr).value();
  const Answer failed = AnswerOf(*bad);
  EXPECT_EQ(failed.finish, FinishReason::kCancelled);
  EXPECT_EQ(failed.error.code(), StatusCode::kDataLoss);
  EXPECT_EQ(Difference(expected, AnswerOf(*good)), "");
}

TEST(Serving, CancelAndDeadlineEndARequestAndFreeItsBlocks) {
  const auto engine = Load(kFullModel);
  ServingOptions options = Small();
  options.share_prefixes = false;
  const auto serving = Make(*engine, options);
  auto cancelled = serving->Submit(Request(20, 3, 480), nullptr).value();
  ASSERT_TRUE(cancelled->Wait().has_value());
  cancelled->Cancel();
  const Answer answer = AnswerOf(*cancelled);
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  EXPECT_TRUE(answer.error.ok());
  EXPECT_LT(answer.tokens.size(), 479u);
  EXPECT_FALSE(cancelled->Take().has_value());
  ServingRequest late = Request(500, 3, 10);
  late.deadline_ms = 1;
  EXPECT_EQ(Ask(*serving, late).finish, FinishReason::kCancelled);
  EXPECT_TRUE(serving->Drain(10'000));
  EXPECT_EQ(LoopOf(*serving).CheckInvariants().message(), "");
}

TEST(Serving, RequestsThatOutliveTheirEngineEndWithAnError) {
  const auto engine = Load(kFullModel);
  auto serving = Make(*engine, Small());
  auto request = serving->Submit(Request(20, 3, 480), nullptr).value();
  auto unread = serving->Submit(Request(20, 9, 480), nullptr).value();
  ASSERT_TRUE(request->Wait().has_value());
  serving.reset();
  const Answer answer = AnswerOf(*request);
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  EXPECT_EQ(answer.error.code(), StatusCode::kCancelled);
  request->Cancel();
}

TEST(Serving, OnEventIsCalledForEveryEventAndNeverOnceTheRequestIsGone) {
  const auto engine = Load(kFullModel);
  const auto serving = Make(*engine, Small());
  for (int round = 0; round < 50; ++round) {
    const auto alive = std::make_unique<std::atomic<int>>(0);
    auto request = serving->Submit(Request(10, 3 + round, 300), [&calls = *alive] { ++calls; }).value();
    while (alive->load() < round % 5) std::this_thread::yield();
    request.reset();
    const int calls = alive->load();
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(alive->load(), calls);
  }
  std::atomic<int> calls{0};
  auto request = serving->Submit(Request(10, 3, 20), [&] { ++calls; }).value();
  EXPECT_EQ(AnswerOf(*request).tokens.size(), 20u);
  while (calls.load() < 20) std::this_thread::yield();
  EXPECT_EQ(calls.load(), 20);
}

TEST(Serving, MetricsCountWhatWasDone) {
  const auto engine = Load(kFullModel);
  const auto serving = Make(*engine, Small());
  for (int i = 0; i < 4; ++i) Ask(*serving, Request(30, 3 + i, 10));
  EXPECT_TRUE(serving->Drain(10'000));
  const ServingMetrics metrics = serving->metrics();
  EXPECT_EQ(metrics.prompt_tokens, 120);
  EXPECT_EQ(metrics.generated_tokens, 40);
  EXPECT_EQ(metrics.requests_finished[static_cast<size_t>(FinishReason::kLength)], 4);
  EXPECT_EQ(metrics.steps, 40) << "a prompt's last step draws the first token";
  const auto total = [](const Histogram& histogram) {
    int64_t sum = 0;
    for (const int64_t count : histogram.counts) sum += count;
    return sum;
  };
  EXPECT_EQ(metrics.batch_tokens.counts.size(), metrics.batch_tokens.bounds.size() + 1);
  EXPECT_EQ(total(metrics.batch_tokens), 40);
  EXPECT_EQ(metrics.batch_tokens.sum, 4 * 30 + 4 * 9);
  EXPECT_EQ(total(metrics.ttft_seconds), 4);
  EXPECT_EQ(total(metrics.token_gap_seconds), 36);
  EXPECT_EQ(metrics.running, 0);
  EXPECT_EQ(serving->pool().misses[static_cast<size_t>(MissCause::kNew)] +
                serving->pool().misses[static_cast<size_t>(MissCause::kTokenDiffers)],
            4);
}

TEST(Serving, IdlePrefixesGoAfterTheirTimeToLive) {
  const auto engine = Load(kFullModel);
  ServingOptions options = Small();
  options.prefix_ttl_ms = 20;
  const auto serving = Make(*engine, options);
  Ask(*serving, Request(100, 3, 4));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (serving->pool().blocks.idle > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(serving->pool().blocks.idle, 0);
  EXPECT_EQ(Ask(*serving, Request(100, 3, 4)).receipt.miss, MissCause::kEvicted);
}

}  // namespace
}  // namespace holdfast
