// Requests from Submit to their end; scheduler_plan.cc decides what a step brings.
#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/scheduler_state.h"

namespace holdfast {
namespace {

// The longest sequence that the pool ever holds: CheckEverFits as a number.
int64_t LongestSequence(const CachePool& pool) {
  int64_t fits = 0, too_long = pool.config().max_context + 1;
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    (pool.CheckEverFits(middle).ok() ? fits : too_long) = middle;
  }
  return fits;
}

}  // namespace

Scheduler::State::State(CachePool& the_pool, const SchedulerOptions& the_options)
    : pool(the_pool), options(the_options), longest(LongestSequence(the_pool)) {
  options.max_running = std::max(1, std::min(options.max_running, options.step_tokens - 1));
  for (const LayerConfig& layer : pool.config().layers) {
    gives_rows_up |= layer.layout.id != LayoutId::kFull || !layer.protection.none();
  }
}

Request* Scheduler::State::Find(RequestId id) {
  const auto found = requests.find(id);
  return found == requests.end() ? nullptr : &found->second;
}

void Scheduler::State::Publish(Request& request, bool with_tail, int64_t now) {
  // The one error is a stale handle, and a running request's never is.
  const Status published = pool.Publish(request.handle, request.tokens, with_tail, now);
  assert(published.ok());
  static_cast<void>(published);
  const int64_t block = pool.config().block_tokens;
  request.published = with_tail ? request.length : request.length / block * block;
  ++room_changes;
}

void Scheduler::State::Release(Request& request) {
  const Status closed = pool.Close(request.handle);
  assert(closed.ok());
  static_cast<void>(closed);
  running.erase(std::find(running.begin(), running.end(), &request));
  request.running = false;
  request.handle = {};
  request.length = request.reserved = request.published = 0;
  request.input_done = false;
  ++room_changes;
}

void Scheduler::State::Forget(Request& request) {
  if (request.cancelled) --cancelled;
  if (request.running) {
    Release(request);
  } else {
    waiting.erase(request.id);
    if (request.preempted) --preempted_waiting;
  }
  requests.erase(request.id);
}

void Scheduler::State::End(Request& request, FinishReason reason, const Status& error) {
  ended.push_back({request.id, reason, error});
  Forget(request);
}

Scheduler::Scheduler(CachePool& pool, const SchedulerOptions& options)
    : state_(std::make_unique<State>(pool, options)) {}

Scheduler::~Scheduler() {
  while (!state_->running.empty()) state_->Release(*state_->running.back());
}

// A preempted request has the place that it ran in: it is counted as running.
Status Scheduler::CheckRoom(int64_t count) const {
  const SchedulerOptions& options = state_->options;
  const int64_t most = most_requests();
  const std::string limit = std::to_string(most) + " may (" + std::to_string(options.max_running) + " run, " +
                            std::to_string(options.max_queued) + " wait)";
  if (count > most) {
    return InvalidArgument("submit: " + std::to_string(count) + " requests at once, at most " + limit);
  }
  const int64_t taken = static_cast<int64_t>(state_->requests.size()) - state_->cancelled;
  if (count <= most - taken) return OkStatus();
  // How many there are is nothing that one tenant should learn of the others.
  return ResourceExhausted("submit: no place for " + std::to_string(count) + " more, at most " + limit);
}

Status Scheduler::CheckEverFits(int64_t prompt_tokens, int64_t max_tokens) const {
  if (prompt_tokens == 0) return InvalidArgument("submit: no tokens, at least 1 is needed");
  const int64_t answer_tokens = max_tokens < 0 ? 1 : max_tokens;
  // Compared this way round: max_tokens is anything that a client wrote.
  if (prompt_tokens <= state_->longest && answer_tokens <= state_->longest - prompt_tokens) return OkStatus();
  const Status context = state_->pool.CheckEverFits(state_->longest + 1);
  return OutOfRange("submit: a prompt of " + std::to_string(prompt_tokens) + " tokens and " +
                    std::to_string(answer_tokens) + " of an answer, a sequence may have " +
                    std::to_string(state_->longest) + " (" + context.message() + ")");
}

Result<RequestId> Scheduler::Submit(ScheduledRequest request, int64_t) {
  const auto prompt_tokens = static_cast<int64_t>(request.tokens.size());
  HF_RETURN_IF_ERROR(CheckEverFits(prompt_tokens, request.max_tokens));
  HF_RETURN_IF_ERROR(CheckRoom(1));
  const auto id = static_cast<RequestId>(++state_->last_id);
  Request& added = state_->requests[id];
  added.id = id;
  added.tokens = std::move(request.tokens);
  added.prompt_tokens = prompt_tokens;
  added.max_tokens = request.max_tokens;
  added.identity = std::move(request.identity);
  added.deadline = request.deadline;
  added.reuses = request.reuses;
  added.limit = request.max_tokens < 0 ? state_->longest : prompt_tokens + request.max_tokens;
  state_->waiting[id] = &added;
  return id;
}

void Scheduler::Cancel(RequestId id) {
  Request* request = state_->Find(id);
  if (request == nullptr || std::exchange(request->cancelled, true)) return;
  ++state_->cancelled;
}

void Scheduler::Drop(RequestId id, int64_t) {
  if (Request* request = state_->Find(id)) state_->Forget(*request);
  std::erase_if(state_->ended, [id](const ScheduledStep::Ended& one) { return one.id == id; });
}

std::span<const int32_t> Scheduler::input(const ScheduledSlice& slice) const {
  const Request* request = state_->Find(slice.id);
  if (request == nullptr || request->left() < slice.tokens) return {};
  return std::span(request->tokens)
      .subspan(static_cast<size_t>(request->length), static_cast<size_t>(slice.tokens));
}

void Scheduler::Committed(const ScheduledStep& step, int64_t now) {
  if (step.slices.empty()) return;
  state_->pool.EndStep();
  const int64_t block = state_->pool.config().block_tokens;
  for (const ScheduledSlice& slice : step.slices) {
    Request* request = state_->Find(slice.id);
    if (request == nullptr || !request->running) continue;  // dropped during the step
    request->length += slice.tokens;
    const bool input_done = !request->input_done && request->left() == 0;
    if (input_done) request->input_done = true;
    if (input_done || request->length / block > request->published / block) {
      state_->Publish(*request, input_done, now);
    }
    if (request->left() == 0 && request->max_tokens == 0) state_->End(*request, FinishReason::kLength);
  }
}

void Scheduler::Aborted(const ScheduledStep& step) {
  if (!step.slices.empty()) state_->pool.EndStep();
}

FinishReason Scheduler::Draw(RequestId id, int32_t token, bool end, int64_t now) {
  Request* request = state_->Find(id);
  if (request == nullptr) return FinishReason::kCancelled;
  assert(request->running && request->left() == 0);
  request->tokens.push_back(token);
  FinishReason reason = FinishReason::kNone;
  if (end) {
    reason = FinishReason::kStop;
  } else if (request->drawn() == request->max_tokens) {
    reason = FinishReason::kLength;
  } else if (static_cast<int64_t>(request->tokens.size()) == request->limit) {
    reason = FinishReason::kContext;
  }
  if (reason != FinishReason::kNone) {
    state_->Publish(*request, true, now);
    state_->Forget(*request);
  }
  return reason;
}

std::vector<Scheduler::View> Scheduler::requests() const {
  std::vector<View> views;
  for (const auto& [id, request] : state_->requests) {
    View& view = views.emplace_back();
    view.id = id;
    view.handle = request.handle;
    view.receipt = request.receipt;
    if (request.running) {
      view.state = request.input_done ? SequenceState::kDecode : SequenceState::kPrefill;
    } else if (request.preempted) {
      view.state = SequenceState::kPreempted;
    } else if (request.leader != RequestId::kNone) {
      view.state = SequenceState::kWaitingForPrefix;
    }
  }
  return views;
}

const Receipt* Scheduler::receipt(RequestId id) const {
  const Request* request = state_->Find(id);
  return request == nullptr || !request->admitted ? nullptr : &request->receipt;
}

std::span<const int32_t> Scheduler::tokens(RequestId id) const {
  const Request* request = state_->Find(id);
  return request == nullptr ? std::span<const int32_t>() : request->tokens;
}

int64_t Scheduler::queued() const {
  return static_cast<int64_t>(state_->waiting.size());
}

int64_t Scheduler::running() const {
  return static_cast<int64_t>(state_->running.size());
}

int64_t Scheduler::longest() const {
  return state_->longest;
}

int64_t Scheduler::most_requests() const {
  return int64_t{state_->options.max_running} + state_->options.max_queued;
}

int64_t Scheduler::preemptions() const {
  return state_->preemptions;
}

}  // namespace holdfast
