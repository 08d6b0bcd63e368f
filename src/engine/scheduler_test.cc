#include "engine/scheduler.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "engine/scheduler_testing.h"

namespace holdfast::testing {
namespace {

std::vector<int32_t> Prompt(int64_t tokens, uint64_t salt = 0) {
  Dice dice(salt);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<int32_t>(dice.Between(1, 1000)));
  return prompt;
}

PoolOptions Pool(int64_t budget_tokens = 0, int64_t max_context = 4096) {
  return {.cache = PretendConfig({LayoutConfig{}}, false, 16, max_context, 4),
          .budget_tokens = budget_tokens,
          .max_sequences = 64,
          .share_prefixes = true};
}

// A pool, its scheduler and a model. Answers never stop of themselves.
class Service {
 public:
  explicit Service(const PoolOptions& pool, const SchedulerOptions& scheduler = {})
      : pool_(std::move(CachePool::Create(pool)).value()),
        scheduler_(std::make_unique<Scheduler>(*pool_, scheduler)) {}

  Result<RequestId> TrySubmit(std::vector<int32_t> prompt, int64_t max_tokens, const std::string& tenant = "",
                              int64_t deadline = 0) {
    ScheduledRequest request{std::move(prompt), max_tokens, {.name_space = tenant}, deadline};
    const Result<RequestId> id = scheduler_->Submit(request, now_);
    if (id.ok()) texts_.emplace(*id, PretendText(request.identity, request.tokens));
    return id;
  }
  RequestId Submit(std::vector<int32_t> prompt, int64_t max_tokens, const std::string& tenant = "",
                   int64_t deadline = 0) {
    const Result<RequestId> id = TrySubmit(std::move(prompt), max_tokens, tenant, deadline);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : RequestId::kNone;
  }

  ScheduledStep Plan() {
    Result<ScheduledStep> step = scheduler_->Plan(now_);
    EXPECT_TRUE(step.ok()) << step.status().message();
    for (const auto& ended : step->ended) finished_[ended.id] = ended.reason;
    return *step;
  }
  void Compute(const ScheduledStep& step) {
    for (const ScheduledSlice& slice : step.slices) {
      const Result<SequenceCache*> cache = pool_->cache(slice.handle);
      if (!cache.ok()) continue;
      const std::span<const int32_t> input = scheduler_->input(slice);
      EXPECT_EQ(static_cast<int64_t>(input.size()), slice.tokens);
      const Status computed = texts_.at(slice.id).ComputeRows(**cache, slice.tokens);
      EXPECT_TRUE(computed.ok()) << computed.message();
      computed_tokens_ += slice.tokens;
    }
  }
  void Commit(const ScheduledStep& step) {
    scheduler_->Committed(step, now_);
    for (const ScheduledSlice& slice : step.slices) {
      if (!slice.wants_token || scheduler_->tokens(slice.id).empty()) continue;
      PretendText& text = texts_.at(slice.id);
      const int32_t token = text.Next();
      text.Append(token);
      const FinishReason reason = scheduler_->Draw(slice.id, token, false, now_);
      if (reason != FinishReason::kNone) finished_[slice.id] = reason;
    }
    ++now_;
  }
  ScheduledStep Step() {
    ScheduledStep step = Plan();
    Compute(step);
    Commit(step);
    const Status account = pool_->CheckInvariants();
    EXPECT_TRUE(account.ok()) << account.message();
    return step;
  }
  // Until all have ended; the steps that it took.
  int RunOut() {
    int steps = 0;
    while (scheduler_->queued() + scheduler_->running() > 0 && steps < 10'000) {
      Step();
      ++steps;
    }
    Plan();  // the last may have ended with their commit
    EXPECT_LT(steps, 10'000);
    return steps;
  }

  FinishReason finished(RequestId id) const {
    return finished_.contains(id) ? finished_.at(id) : FinishReason::kNone;
  }
  SequenceState state(RequestId id) const {
    for (const Scheduler::View& view : scheduler_->requests()) {
      if (view.id == id) return view.state;
    }
    ADD_FAILURE() << "no such request";
    return SequenceState::kQueued;
  }
  const PretendText& text(RequestId id) const { return texts_.at(id); }
  CachePool& pool() { return *pool_; }
  Scheduler& scheduler() { return *scheduler_; }
  int64_t computed_tokens() const { return computed_tokens_; }
  int64_t now() const { return now_; }

 private:
  std::unique_ptr<CachePool> pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<RequestId, PretendText> texts_;
  std::map<RequestId, FinishReason> finished_;
  int64_t computed_tokens_ = 0;
  int64_t now_ = 1;
};

int64_t TokensOf(const ScheduledStep& step, RequestId id) {
  for (const ScheduledSlice& slice : step.slices) {
    if (slice.id == id) return slice.tokens;
  }
  return 0;
}

// llama.cpp#23652: two requests that did not fit together killed each other.
TEST(Scheduler, LetsOneOfTwoWaitThatDoNotFitTogether) {
  Service service(Pool(2048));
  const RequestId small = service.Submit(Prompt(555, 1), 10);
  const RequestId large = service.Submit(Prompt(1475, 2), 10);
  while (service.finished(small) == FinishReason::kNone) {
    EXPECT_EQ(TokensOf(service.Step(), large), 0);
  }
  service.RunOut();
  EXPECT_EQ(service.finished(small), FinishReason::kLength);
  EXPECT_EQ(service.finished(large), FinishReason::kLength);
  EXPECT_EQ(service.scheduler().preemptions(), 0);
}

TEST(Scheduler, RefusesBeforeAnyWorkWhatCanNeverFit) {
  Service service(Pool(2048));
  const Result<RequestId> prompt = service.TrySubmit(Prompt(2048), 1);
  ASSERT_EQ(prompt.status().code(), StatusCode::kOutOfRange);
  EXPECT_NE(prompt.status().message().find("2048"), std::string::npos) << prompt.status().message();
  EXPECT_EQ(service.TrySubmit(Prompt(2048), -1).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(service.TrySubmit(Prompt(48), 2001).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(service.TrySubmit(Prompt(48), INT64_MAX).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(service.TrySubmit({}, 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(service.Step().slices.empty());
  EXPECT_EQ(service.pool().blocks().live, 0);
  EXPECT_TRUE(service.TrySubmit(Prompt(48), 2000).ok());
  Service unlimited(Pool(0, 100));
  EXPECT_EQ(unlimited.TrySubmit(Prompt(90), 11).status().code(), StatusCode::kOutOfRange);
}

// llama.cpp#29175: a long prompt starved those who decoded.
TEST(Scheduler, GivesEveryDecodingRequestATokenInEveryStepWhileALongPromptIsRead) {
  Service service(Pool(0, 70'000));
  const RequestId chat = service.Submit(Prompt(10), 1000);
  service.Step();
  const RequestId book = service.Submit(Prompt(65'536, 2), 1);
  int steps = 0;
  while (service.finished(book) == FinishReason::kNone && steps < 1000) {
    const ScheduledStep step = service.Step();
    EXPECT_EQ(TokensOf(step, chat), 1);
    EXPECT_EQ(TokensOf(step, book) + 1, std::min<int64_t>(512, 65'536 - steps * int64_t{511} + 1));
    ++steps;
  }
  EXPECT_EQ(steps, 129);
}

// vLLM#46283: cancelled requests leaked blocks.
TEST(Scheduler, HasAllBlocksBackAfterAThousandCancels) {
  PoolOptions options = Pool(600);
  options.share_prefixes = false;
  Service service(options, {.max_running = 6, .step_tokens = 64});
  const BlockCounts start = service.pool().blocks();
  const int64_t start_bytes = service.pool().memory_usage_bytes();
  Dice dice(3);
  for (int i = 0; i < 1000;) {
    while (service.scheduler().queued() < 8) service.Submit(Prompt(dice.Between(1, 200), dice.Next()), 300);
    const ScheduledStep step = service.Plan();
    service.Compute(step);
    const auto views = service.scheduler().requests();
    for (int64_t cancels = dice.Between(0, 3); cancels > 0; --cancels, ++i) {
      service.scheduler().Cancel(dice.Pick(views).id);
    }
    service.Commit(step);
  }
  for (const auto& view : service.scheduler().requests()) service.scheduler().Cancel(view.id);
  EXPECT_TRUE(service.Step().slices.empty());
  const BlockCounts end = service.pool().blocks();
  EXPECT_EQ(end.live, 0);
  EXPECT_EQ(end.idle, 0);
  EXPECT_EQ(end.total - end.free, start.total - start.free);
  EXPECT_EQ(service.pool().memory_usage_bytes(), start_bytes);
}

TEST(Scheduler, StartsRequestsInTheirOrderAndLetsNoSmallOnePassALargeOne) {
  Service service(Pool(320));
  const RequestId first = service.Submit(Prompt(150, 1), 10);
  const RequestId large = service.Submit(Prompt(250, 2), 10);
  const RequestId small = service.Submit(Prompt(10, 3), 10);
  service.Step();
  EXPECT_EQ(service.state(first), SequenceState::kDecode);
  EXPECT_EQ(service.state(large), SequenceState::kQueued);
  EXPECT_EQ(service.state(small), SequenceState::kQueued);
  while (service.finished(large) == FinishReason::kNone) service.Step();
  EXPECT_EQ(service.finished(first), FinishReason::kLength);
  service.RunOut();
  EXPECT_EQ(service.finished(small), FinishReason::kLength);
}

TEST(Scheduler, RefusesMoreThanMayRunAndWait) {
  Service service(Pool(), {.max_running = 1, .max_queued = 2});
  for (int i = 0; i < 3; ++i) service.Submit(Prompt(10), 5);
  const Result<RequestId> fourth = service.TrySubmit(Prompt(10), 5);
  ASSERT_EQ(fourth.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(fourth.status().message().find("at most 3"), std::string::npos) << fourth.status().message();
  service.Step();
  EXPECT_FALSE(service.TrySubmit(Prompt(10), 5).ok());  // one of the three runs, two wait
  service.RunOut();
  EXPECT_TRUE(service.TrySubmit(Prompt(10), 5).ok());
}

TEST(Scheduler, RunsAllItCanWhereNoneMayWait) {
  Service service(Pool(), {.max_running = 2, .max_queued = 0});
  EXPECT_TRUE(service.scheduler().CheckRoom(2).ok());
  EXPECT_EQ(service.scheduler().CheckRoom(3).code(), StatusCode::kInvalidArgument);
  const RequestId first = service.Submit(Prompt(10), 5);
  EXPECT_EQ(service.scheduler().CheckRoom(2).code(), StatusCode::kResourceExhausted);
  service.Submit(Prompt(10, 2), 5);
  EXPECT_EQ(service.TrySubmit(Prompt(10, 3), 5).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(service.Step().slices.size(), 2u);
  EXPECT_EQ(service.TrySubmit(Prompt(10, 3), 5).status().code(), StatusCode::kResourceExhausted);
  service.scheduler().Cancel(first);  // its place is free by the next step
  service.scheduler().Cancel(first);
  service.Submit(Prompt(10, 3), 5);
  EXPECT_EQ(service.TrySubmit(Prompt(10, 4), 5).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(service.Step().slices.size(), 2u);
  service.RunOut();
  EXPECT_TRUE(service.scheduler().CheckRoom(2).ok());
}

TEST(Scheduler, PreemptsTheYoungestAndResumesItWithTheSameAnswer) {
  Service service(Pool(160), {.decode_liability_tokens = 16});
  const RequestId old = service.Submit(Prompt(30, 1), 100);
  const RequestId young = service.Submit(Prompt(30, 2), 100);
  bool preempted = false;
  while (service.finished(young) == FinishReason::kNone) {
    service.Step();
    if (service.finished(young) != FinishReason::kNone) break;
    if (service.state(young) == SequenceState::kPreempted) preempted = true;
    if (service.finished(old) != FinishReason::kNone) continue;
    EXPECT_NE(service.state(old), SequenceState::kPreempted);
  }
  EXPECT_TRUE(preempted);
  EXPECT_GT(service.scheduler().preemptions(), 0);
  EXPECT_EQ(service.finished(old), FinishReason::kLength);
  EXPECT_EQ(service.finished(young), FinishReason::kLength);
  for (const RequestId id : {old, young}) {
    EXPECT_EQ(service.text(id).size(), 130);
  }
}

// What was computed before a preemption stays as a prefix, as far as nobody needs the room.
TEST(Scheduler, ComputesLittleASecondTimeAfterAPreemption) {
  Service service(Pool(160), {.decode_liability_tokens = 16});
  service.Submit(Prompt(30, 1), 100);
  service.Submit(Prompt(30, 2), 100);
  service.RunOut();
  EXPECT_GT(service.scheduler().preemptions(), 0);
  EXPECT_LE(service.computed_tokens(), 2 * 129 + service.scheduler().preemptions());
}

TEST(Scheduler, ComputesAPromptOnceForEightThatArriveTogether) {
  Service service(Pool(), {.max_running = 8});
  std::vector<RequestId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(service.Submit(Prompt(700), 5));
  service.Step();
  EXPECT_EQ(service.state(ids[0]), SequenceState::kPrefill);
  for (int i = 1; i < 8; ++i) EXPECT_EQ(service.state(ids[i]), SequenceState::kWaitingForPrefix);
  service.RunOut();
  EXPECT_EQ(service.computed_tokens(), 700 + 7 + 8 * 4);
  for (const RequestId id : ids) {
    EXPECT_EQ(service.finished(id), FinishReason::kLength);
    EXPECT_TRUE(std::ranges::equal(service.text(id).tokens(), service.text(ids[0]).tokens()));
  }
}

TEST(Scheduler, StartsThoseWhoShareABeginningOnceItIsThere) {
  Service service(Pool(), {.step_tokens = 64});
  std::vector<int32_t> long_prompt = Prompt(600);
  std::vector<int32_t> short_prompt(long_prompt.begin(), long_prompt.begin() + 100);
  short_prompt.push_back(5000);
  const RequestId leader = service.Submit(long_prompt, 5);
  const RequestId follower = service.Submit(short_prompt, 5);
  service.Step();
  EXPECT_EQ(service.state(follower), SequenceState::kWaitingForPrefix);
  service.Step();  // 128 tokens are there, of which 100 are what it waits for
  EXPECT_GT(TokensOf(service.Step(), follower), 0);
  EXPECT_EQ(service.state(leader), SequenceState::kPrefill);
  EXPECT_EQ(service.scheduler().receipt(follower)->reused_tokens, 100);
}

// The rows that a window sees where the prompts part are there only while that is where the first one has got to.
TEST(Scheduler, SharesABeginningInWindowLayersWithThoseWhoArriveTogether) {
  PoolOptions options = Pool();
  options.cache =
      PretendConfig({LayoutConfig{}, {.id = LayoutId::kWindow, .window_tokens = 40}}, false, 16, 4096, 4);
  Service service(options);
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 8; ++i) {
    std::vector<int32_t> prompt = Prompt(300);
    const std::vector<int32_t> own = Prompt(150, 10 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    ids.push_back(service.Submit(prompt, 1));
  }
  service.RunOut();
  EXPECT_EQ(service.computed_tokens(), 300 + 8 * 150);
}

TEST(Scheduler, LetsNobodyWaitForAnotherTenantsPrefixOrForAFewTokens) {
  Service service(Pool(), {.step_tokens = 64});
  std::vector<int32_t> other = Prompt(300);
  std::fill(other.begin() + 10, other.end(), 5000);
  service.Submit(Prompt(300), 5, "a");
  const RequestId tenant = service.Submit(Prompt(300), 5, "b");
  const RequestId few = service.Submit(other, 5, "a");
  const RequestId same = service.Submit(Prompt(300), 5, "a");
  const RequestId behind = service.Submit(Prompt(20, 4), 5, "a");
  const ScheduledStep step = service.Step();
  EXPECT_EQ(service.state(tenant), SequenceState::kPrefill);
  EXPECT_EQ(service.state(few), SequenceState::kPrefill);
  EXPECT_EQ(service.state(same), SequenceState::kWaitingForPrefix);
  EXPECT_EQ(TokensOf(step, behind), 20);  // is not held up
  service.RunOut();
  EXPECT_EQ(service.finished(same), FinishReason::kLength);
}

TEST(Scheduler, GoesOnWhereTheOneThatOthersWaitForIsCancelled) {
  Service service(Pool(), {.step_tokens = 64});
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(service.Submit(Prompt(300), 5));
  service.Step();
  service.scheduler().Cancel(ids[0]);
  service.Step();
  EXPECT_EQ(service.finished(ids[0]), FinishReason::kCancelled);
  EXPECT_EQ(service.state(ids[1]), SequenceState::kPrefill);
  EXPECT_EQ(service.state(ids[2]), SequenceState::kWaitingForPrefix);
  service.RunOut();
  for (int i = 1; i < 4; ++i) EXPECT_EQ(service.finished(ids[i]), FinishReason::kLength);
  EXPECT_EQ(service.computed_tokens(), 300 + 2 + 3 * 4);
}

TEST(Scheduler, WaitsForNothingWherePrefixesAreNotShared) {
  PoolOptions options = Pool();
  options.share_prefixes = false;
  Service service(options);
  service.Submit(Prompt(300), 5);
  const RequestId same = service.Submit(Prompt(300), 5);
  EXPECT_GT(TokensOf(service.Step(), same), 0);
}

TEST(Scheduler, ReadsOneTokenOfAPromptThatItHasReadBefore) {
  Service service(Pool());
  service.Submit(Prompt(2000), 3);
  service.RunOut();
  const RequestId again = service.Submit(Prompt(2000), 3);
  const ScheduledStep step = service.Step();
  ASSERT_EQ(step.slices.size(), 1u);
  EXPECT_EQ(step.slices[0].tokens, 1);
  EXPECT_TRUE(step.slices[0].wants_token);
  EXPECT_EQ(service.scheduler().receipt(again)->reused_tokens, 1999);
}

TEST(Scheduler, ReadsShortPromptsBesideALongOneThatKeepsHalfTheStep) {
  Service service(Pool(0, 10'000), {.step_tokens = 100});
  const RequestId book = service.Submit(Prompt(5000, 1), 1);
  service.Step();
  const RequestId longer = service.Submit(Prompt(200, 2), 1);
  const RequestId shorter = service.Submit(Prompt(30, 3), 1);
  ScheduledStep step = service.Step();
  EXPECT_EQ(TokensOf(step, book), 50);
  EXPECT_EQ(TokensOf(step, shorter), 30);
  EXPECT_EQ(TokensOf(step, longer), 20);
  while (service.finished(longer) == FinishReason::kNone) {
    step = service.Step();
    EXPECT_GE(TokensOf(step, book), 50);
  }
  EXPECT_EQ(TokensOf(service.Step(), book), 100);
}

TEST(Scheduler, KeepsWithinTheStepWhoeverDecodes) {
  Service service(Pool(), {.max_running = 8, .step_tokens = 4});
  for (uint64_t i = 0; i < 8; ++i) service.Submit(Prompt(20, i + 1), 10);
  while (service.scheduler().queued() + service.scheduler().running() > 0) {
    const ScheduledStep step = service.Step();
    int64_t tokens = 0;
    for (const ScheduledSlice& slice : step.slices) tokens += slice.tokens;
    EXPECT_LE(tokens, 4);
    EXPECT_LE(step.slices.size(), 3u);
  }
}

TEST(Scheduler, EndsWhatIsPastItsDeadlineWhereverItIs) {
  Service service(Pool(), {.max_running = 1});
  const RequestId runs = service.Submit(Prompt(10), 1000, "", service.now() + 5);
  const RequestId waits = service.Submit(Prompt(10), 1000, "", service.now() + 3);
  const RequestId patient = service.Submit(Prompt(10), 2, "", service.now() + 100);
  for (int i = 0; i < 3; ++i) service.Step();
  EXPECT_EQ(service.finished(waits), FinishReason::kNone);
  service.Step();
  EXPECT_EQ(service.finished(waits), FinishReason::kCancelled);
  EXPECT_EQ(service.finished(runs), FinishReason::kNone);
  service.RunOut();
  EXPECT_EQ(service.finished(runs), FinishReason::kCancelled);
  EXPECT_EQ(service.text(runs).size(), 10 + 5);
  EXPECT_EQ(service.finished(patient), FinishReason::kLength);
}

TEST(Scheduler, AnswersUntilTheContextEndsWhereNoLengthIsAsked) {
  Service service(Pool(0, 64), {.decode_liability_tokens = 4});
  const RequestId endless = service.Submit(Prompt(10), -1);
  const RequestId silent = service.Submit(Prompt(10, 2), 0);
  service.RunOut();
  EXPECT_EQ(service.finished(endless), FinishReason::kContext);
  EXPECT_EQ(service.text(endless).size(), 64);
  EXPECT_EQ(service.finished(silent), FinishReason::kLength);
  EXPECT_EQ(service.text(silent).size(), 10);
}

// Prompt and answer have the context together, whether the answer's length is asked for or not.
TEST(Scheduler, FillsTheContextToItsLastTokenAndNoFurther) {
  Service service(Pool(0, 64), {.decode_liability_tokens = 4});
  const RequestId asked = service.Submit(Prompt(10), 54);
  const RequestId one = service.Submit(Prompt(63, 2), -1);
  const RequestId silent = service.Submit(Prompt(64, 3), 0);
  EXPECT_EQ(service.TrySubmit(Prompt(10), 55).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(service.TrySubmit(Prompt(64), -1).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(service.TrySubmit(Prompt(65), 0).status().code(), StatusCode::kOutOfRange);
  service.RunOut();
  EXPECT_EQ(service.finished(asked), FinishReason::kLength);
  EXPECT_EQ(service.text(asked).size(), 64);
  EXPECT_EQ(service.finished(one), FinishReason::kContext);
  EXPECT_EQ(service.text(one).size(), 64);
  EXPECT_EQ(service.finished(silent), FinishReason::kLength);
}

TEST(Scheduler, StopsAtAnEndToken) {
  Service service(Pool());
  const RequestId id = service.Submit(Prompt(10), 5);
  const ScheduledStep step = service.Plan();
  service.Compute(step);
  service.scheduler().Committed(step, service.now());
  EXPECT_EQ(service.scheduler().Draw(id, 2, true, service.now()), FinishReason::kStop);
  EXPECT_EQ(service.scheduler().running(), 0);
  EXPECT_EQ(service.pool().open_sequences(), 0);
  EXPECT_EQ(service.scheduler().Draw(id, 2, true, service.now()), FinishReason::kCancelled);  // forgotten
}

TEST(Scheduler, PlansTheSameStepAgainAfterOneThatFailed) {
  Service service(Pool());
  const RequestId id = service.Submit(Prompt(600), 3);
  const ScheduledStep failed = service.Plan();
  service.scheduler().Aborted(failed);
  const ScheduledStep again = service.Step();
  EXPECT_EQ(TokensOf(failed, id), 512);
  EXPECT_EQ(TokensOf(again, id), 512);
  service.RunOut();
  EXPECT_EQ(service.finished(id), FinishReason::kLength);
}

TEST(Scheduler, ForgetsWhatIsDroppedInTheMiddleOfAStep) {
  Service service(Pool());
  const RequestId dropped = service.Submit(Prompt(20, 1), 5);
  const RequestId stays = service.Submit(Prompt(20, 2), 5);
  const ScheduledStep step = service.Plan();
  service.scheduler().Drop(dropped, service.now());
  service.scheduler().Drop(dropped, service.now());
  EXPECT_TRUE(service.scheduler().input(step.slices[0]).empty());
  EXPECT_EQ(service.scheduler().receipt(dropped), nullptr);
  service.scheduler().Aborted(step);
  service.RunOut();
  EXPECT_EQ(service.finished(stays), FinishReason::kLength);
  EXPECT_EQ(service.pool().open_sequences(), 0);
}

TEST(Scheduler, TellsWhyARequestEndsThatAPinnedPrefixLeavesNoRoomFor) {
  const CacheConfig cache = Pool().cache;
  PoolOptions options = Pool();
  options.cache.max_context = 256;
  options.budget_bytes = PlanCache(cache, 512)->total_bytes();
  Service service(options);
  service.Submit(Prompt(200, 1), 1);
  service.RunOut();
  ASSERT_TRUE(service.pool().Pin({}, Prompt(200, 1)).ok());
  const RequestId large = service.Submit(Prompt(240, 3), 10);
  const ScheduledStep step = service.Plan();
  ASSERT_EQ(step.ended.size(), 1u);
  EXPECT_EQ(step.ended[0].id, large);
  EXPECT_EQ(step.ended[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(step.ended[0].error.code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace holdfast::testing
