#include "engine/serving_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "engine/logprobs.h"

namespace holdfast {
namespace {

// Where something waits that no call will wake the loop for: a deadline, a time to live.
constexpr auto kRest = std::chrono::milliseconds(5);
constexpr auto kLongRest = std::chrono::milliseconds(250);

SchedulerOptions SchedulerOptionsOf(const ServingOptions& options) {
  SchedulerOptions o;
  o.max_running = options.max_running;
  o.max_queued = options.max_queued;
  o.step_tokens = options.step_tokens;
  o.decode_liability_tokens = options.decode_liability_tokens;
  return o;
}

int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Seconds(int64_t us) {
  return static_cast<double>(us) * 1e-6;
}

DrawnToken EndWith(FinishReason reason, Status error = OkStatus()) {
  DrawnToken end;
  end.finish = reason;
  end.error = std::move(error);
  return end;
}

}  // namespace

ServingLoop::ServingLoop(EngineCore& core, const ServingOptions& options, const Sha256& model,
                         ServingScratch scratch, std::unique_ptr<CachePool> pool)
    : core_(core),
      options_(options),
      model_(model),
      pool_(std::move(pool)),
      scheduler_(*pool_, SchedulerOptionsOf(options)),
      scratch_(std::move(scratch)) {
  PublishFigures();
}

void ServingLoop::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
}

Result<std::vector<ServingLoop::Submitted>> ServingLoop::Submit(std::span<const ServingRequest> requests,
                                                                const std::function<void()>& on_event) {
  const std::lock_guard lock(mutex_);
  if (draining_) return FailedPrecondition("submit: the engine is draining and takes no more requests");
  for (const ServingRequest& request : requests) {
    HF_RETURN_IF_ERROR(
        scheduler_.CheckEverFits(static_cast<int64_t>(request.tokens.size()), request.generate.max_tokens));
  }
  HF_RETURN_IF_ERROR(scheduler_.CheckRoom(static_cast<int64_t>(requests.size())));
  const int64_t now = NowUs();
  std::vector<Submitted> submitted;
  for (const ServingRequest& request : requests) {  // none is refused any more
    HF_ASSIGN_OR_RETURN(Submitted one, SubmitOne(request, on_event, now));
    submitted.push_back(std::move(one));
  }
  woken_ = true;
  wake_.notify_all();
  return submitted;
}

Result<ServingLoop::Submitted> ServingLoop::SubmitOne(const ServingRequest& request,
                                                      const std::function<void()>& on_event, int64_t now) {
  auto channel = std::make_shared<RequestChannel>(on_event);
  ScheduledRequest scheduled;
  scheduled.tokens = request.tokens;
  scheduled.max_tokens = request.generate.max_tokens;
  scheduled.identity.model = model_;
  scheduled.identity.name_space = request.name_space;
  scheduled.reuses = !request.prompt_logprobs;
  if (request.deadline_ms > 0) scheduled.deadline = now + request.deadline_ms * 1000;
  HF_ASSIGN_OR_RETURN(const RequestId id, scheduler_.Submit(std::move(scheduled), now));
  records_.emplace(static_cast<uint64_t>(id),
                   Record{.channel = channel,
                          .sampler = Sampler(request.generate.sampling),
                          .prompt_tokens = request.tokens.size(),
                          .top_logprobs = request.top_logprobs,
                          .prompt_known = request.prompt_logprobs ? 1 : request.tokens.size(),
                          .ignore_eos = request.generate.ignore_eos,
                          .submitted_us = now});
  return Submitted{id, std::move(channel)};
}

void ServingLoop::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  scheduler_.Cancel(id);
  woken_ = true;
  wake_.notify_all();
}

bool ServingLoop::Drain(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return idle_.wait_for(lock, std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 0)),
                        [this] { return records_.empty(); });
}

void ServingLoop::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    woken_ = false;
    Result<ScheduledStep> step = scheduler_.Plan(NowUs());
    bool busy = false;
    if (!step.ok()) {
      FailAll(step.status());
    } else {
      for (const auto& ended : step->ended) EndRequest(ended.id, EndWith(ended.reason, ended.error));
      busy = !step->slices.empty();
      if (busy) RunStep(*step, lock);
    }
    // Before the mutex is given up: who waits for the last request's end then finds its blocks free.
    if (!busy || records_.empty()) PublishFigures();
    NotifyConsumers(lock);
    if (!busy) Wait(lock, !records_.empty());
  }
  FailAll(Cancelled("serving: the engine ends"));
  PublishFigures();
  NotifyConsumers(lock);
}

void ServingLoop::Wait(std::unique_lock<std::mutex>& lock, bool busy) {
  const auto ready = [this] { return woken_ || stopping_; };
  if (busy) {
    wake_.wait_for(lock, kRest, ready);
  } else if (options_.prefix_ttl_ms > 0 && pool_->blocks().idle > 0) {
    wake_.wait_for(lock, kLongRest, ready);
  } else {
    wake_.wait(lock, ready);
  }
}

Result<KvBatch> ServingLoop::BeginBatch(const ScheduledStep& step) {
  std::vector<BatchSlice> slices;
  tokens_.clear();
  logits_rows_.clear();
  draws_.clear();
  for (const ScheduledSlice& slice : step.slices) {
    HF_ASSIGN_OR_RETURN(SequenceCache * cache, pool_->cache(slice.handle));
    slices.push_back({cache, slice.tokens});
    const auto input = scheduler_.input(slice);
    tokens_.insert(tokens_.end(), input.begin(), input.end());
    Record& record = records_.at(static_cast<uint64_t>(slice.id));
    NoteAdmitted(slice, record);
    AddPromptRows(slice, record, cache->length());
    if (!slice.wants_token) continue;
    Draw& draw = draws_.emplace_back();
    draw.id = slice.id;
    draw.record = &record;
    draw.history.tokens = scheduler_.tokens(slice.id);
    draw.history.answer_tokens = draw.history.tokens.size() - record.prompt_tokens;
    logits_rows_.push_back(static_cast<int64_t>(tokens_.size()) - 1);
  }
  return KvBatch::Begin(slices, core_.workspace(), core_.pool());
}

// The row of a position has the log probabilities of the token after it. Nothing is asked twice: a request that was
// preempted in its prompt reads it anew.
void ServingLoop::AddPromptRows(const ScheduledSlice& slice, Record& record, int64_t cached) {
  const auto tokens = scheduler_.tokens(slice.id);
  const int64_t row = static_cast<int64_t>(tokens_.size()) - slice.tokens - cached;  // of position 0
  const size_t end = std::min(record.prompt_tokens, static_cast<size_t>(cached + slice.tokens) + 1);
  for (size_t i = std::max(record.prompt_known, static_cast<size_t>(cached) + 1); i < end; ++i) {
    Draw& draw = draws_.emplace_back();
    draw.id = slice.id;
    draw.record = &record;
    draw.prompt_token = tokens[i];
    logits_rows_.push_back(row + static_cast<int64_t>(i) - 1);
  }
}

void ServingLoop::NoteAdmitted(const ScheduledSlice& slice, Record& record) {
  if (record.admitted) return;
  record.admitted = true;
  const Receipt* receipt = scheduler_.receipt(slice.id);
  if (receipt == nullptr) return;
  record.channel->SetReceipt(*receipt);
  metrics_.Prompt(receipt->prompt_tokens);
  const std::lock_guard lock(figures_mutex_);
  figures_.prompt_tokens += receipt->prompt_tokens;
  figures_.reused_tokens += receipt->reused_tokens;
  figures_.hits += receipt->reused_tokens > 0 ? 1 : 0;
  const MissCause cause = receipt->in_other_namespace ? MissCause::kOtherNamespace : receipt->miss;
  if (cause != MissCause::kNone) ++figures_.misses[static_cast<size_t>(cause)];
}

// Spans and pointers that a step keeps stay valid without the mutex: requests are forgotten by Plan, Draw and Drop alone,
// which are this thread's.
void ServingLoop::RunStep(const ScheduledStep& step, std::unique_lock<std::mutex>& lock) {
  Status status;
  {
    Result<KvBatch> batch = BeginBatch(step);
    status = batch.status();
    PublishFigures();  // memory is now what the step needs at most
    if (status.ok()) {
      batch->SetCascade(options_.cascade == CascadeMode::kAuto);
      in_pass_ = true;
      lock.unlock();
      const LogitsParts parts = {.logits = scratch_.logits(),
                                 .rows = scratch_.logits_rows(),
                                 .take = [this](int64_t first, int64_t count) { DrawTokens(first, count); }};
      status = core_.model().ForwardInParts(tokens_, *batch, logits_rows_, parts, nullptr);
      lock.lock();
      in_pass_ = false;
      if (status.ok()) status = batch->Commit();
    }
  }
  if (!status.ok()) return FailStep(step, status);
  const int64_t now = NowUs();
  scheduler_.Committed(step, now);
  metrics_.Step(static_cast<int64_t>(tokens_.size()));
  for (Draw& draw : draws_) Deliver(draw, now);
}

// Each request's token depends on its own logits, history and random state, so they may be drawn side by side.
void ServingLoop::DrawTokens(int64_t first, int64_t count) {
  const int64_t tasks = std::min(scratch_.samplers(), count);
  const auto draw_some = [&](int64_t task, int) {
    for (int64_t i = task; i < count; i += tasks) {
      DrawOne(draws_[static_cast<size_t>(first + i)], scratch_.logits() + i * core_.info().vocab_size,
              scratch_.sampler(task));
    }
  };
  if (tasks == 1) return draw_some(0, 0);
  if (tasks > 1) core_.pool().ParallelFor(tasks, draw_some);
}

void ServingLoop::DrawOne(Draw& draw, const float* row, SamplerScratch& scratch) const {
  try {
    const std::span<const float> logits(row, static_cast<size_t>(core_.info().vocab_size));
    draw.drawn.token = draw.prompt_token;
    if (draw.prompt_token < 0) {
      const auto token = draw.record->sampler.Sample(logits, draw.history, scratch);
      if (!token.ok()) {
        draw.drawn.error = token.status();
        return;
      }
      draw.drawn.token = *token;
      draw.drawn.end_token = !draw.record->ignore_eos && core_.IsEndToken(*token);
    }
    if (draw.record->top_logprobs < 0) return;
    TokenLogprobs logprobs =
        LogprobsOf(logits, draw.drawn.token, draw.record->top_logprobs, scratch.weights());
    if (std::isnan(logprobs.chosen.logprob)) {
      draw.drawn.error =
          DataLoss("logprobs: the logit of token " + std::to_string(draw.drawn.token) + " is no number");
      return;
    }
    draw.drawn.logprob = logprobs.chosen;
    draw.drawn.top = std::move(logprobs.top);
  } catch (const std::bad_alloc&) {
    draw.drawn.error = ResourceExhausted("sample: no memory to draw a token");
  }
}

void ServingLoop::Deliver(Draw& draw, int64_t now) {
  if (!records_.contains(static_cast<uint64_t>(draw.id))) return;  // another row of it has ended it
  if (!draw.drawn.error.ok()) {
    scheduler_.Drop(draw.id, now);
    EndRequest(draw.id, EndWith(FinishReason::kCancelled, draw.drawn.error));
    return;
  }
  Record& record = *draw.record;
  if (draw.prompt_token >= 0) {
    ++record.prompt_known;
    return record.channel->AddPromptLogprobs({*draw.drawn.logprob, std::move(draw.drawn.top)});
  }
  if (record.last_token_us == 0) {
    metrics_.FirstToken(Seconds(now - record.submitted_us));
  } else {
    metrics_.NextToken(Seconds(now - record.last_token_us));
  }
  record.last_token_us = now;
  draw.drawn.finish = scheduler_.Draw(draw.id, draw.drawn.token, draw.drawn.end_token, now);
  if (draw.drawn.finish != FinishReason::kNone) return EndRequest(draw.id, std::move(draw.drawn));
  record.channel->Push(std::move(draw.drawn));
  to_notify_.push_back(record.channel);
}

void ServingLoop::EndRequest(RequestId id, DrawnToken last) {
  const auto found = records_.find(static_cast<uint64_t>(id));
  if (found == records_.end()) return;
  found->second.channel->Push(std::move(last));
  to_notify_.push_back(std::move(found->second.channel));
  records_.erase(found);
  if (records_.empty()) idle_.notify_all();
}

// What a pass had in it is lost, and so are the requests that were in it; the engine and all others go on.
void ServingLoop::FailStep(const ScheduledStep& step, const Status& status) {
  scheduler_.Aborted(step);
  const int64_t now = NowUs();
  for (const ScheduledSlice& slice : step.slices) {
    scheduler_.Drop(slice.id, now);
    EndRequest(slice.id, EndWith(FinishReason::kCancelled, status));
  }
}

void ServingLoop::FailAll(const Status& status) {
  const int64_t now = NowUs();
  for (const Scheduler::View& view : scheduler_.requests()) {
    scheduler_.Drop(view.id, now);
    EndRequest(view.id, EndWith(FinishReason::kCancelled, status));
  }
}

void ServingLoop::NotifyConsumers(std::unique_lock<std::mutex>& lock) {
  if (to_notify_.empty()) return;
  lock.unlock();
  for (const auto& channel : to_notify_) channel->Notify();
  to_notify_.clear();
  lock.lock();
}

void ServingLoop::PublishFigures() {
  const auto views = scheduler_.requests();
  const std::lock_guard lock(figures_mutex_);
  figures_.budget_bytes = pool_->budget_bytes();
  figures_.scratch_bytes = scratch_.held_bytes();
  // The pool sets scratch aside in full from the start; what is taken of it is less.
  figures_.allocated_bytes = pool_->memory_usage_bytes() - scratch_.limit_bytes() + figures_.scratch_bytes;
  figures_.blocks = pool_->blocks();
  figures_.evictions = pool_->evictions();
  figures_.preemptions = scheduler_.preemptions();
  figures_.sequences.clear();
  for (const Scheduler::View& view : views) {
    ServedSequence& sequence = figures_.sequences.emplace_back();
    sequence.id = static_cast<uint64_t>(view.id);
    sequence.state = view.state;
    if (view.handle.id == SequenceId::kNone) continue;
    const auto cache = pool_->cache(view.handle);
    sequence.tokens = cache.ok() ? (*cache)->length() : 0;
    sequence.blocks = pool_->blocks_of(view.handle);
  }
  metrics_.Waiting(scheduler_.queued(), scheduler_.running());
}

PoolSnapshot ServingLoop::Snapshot() const {
  const std::lock_guard lock(figures_mutex_);
  return figures_;
}

Status ServingLoop::CheckInvariants() {
  std::unique_lock lock(mutex_);
  while (in_pass_) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  if (scratch_.held_bytes() > scratch_.limit_bytes()) {
    return DataLoss("serving: scratch is " + std::to_string(scratch_.held_bytes()) + " bytes, the limit is " +
                    std::to_string(scratch_.limit_bytes()));
  }
  return pool_->CheckInvariants();
}

}  // namespace holdfast
