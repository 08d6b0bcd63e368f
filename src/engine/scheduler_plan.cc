// A step: who ends, who grows, who starts, and what each brings.
#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/status_macros.h"
#include "engine/scheduler.h"
#include "engine/scheduler_state.h"

namespace holdfast {
namespace {

int64_t CommonPrefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const size_t most = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first - a.begin();
}

}  // namespace

Result<ScheduledStep> Scheduler::Plan(int64_t now) {
  State& state = *state_;
  state.pool.DropExpired(now);
  state.Reap(now);
  state.GrowDecoding(now);
  state.Admit(now);
  ScheduledStep step;
  state.ShareStep(step);
  if (!step.slices.empty()) {
    std::vector<CachePool::StepSlice> slices;
    slices.reserve(step.slices.size());
    for (const ScheduledSlice& slice : step.slices) slices.push_back({slice.handle, slice.tokens});
    HF_RETURN_IF_ERROR(state.pool.BeginStep(slices, now));
  }
  step.ended = std::exchange(state.ended, {});
  return step;
}

void Scheduler::State::Reap(int64_t now) {
  for (auto next = requests.begin(); next != requests.end();) {
    Request& request = next++->second;
    const bool late = request.deadline != 0 && now >= request.deadline;
    if (request.cancelled || late) End(request, FinishReason::kCancelled);
  }
}

// The oldest first: what is left belongs to the younger.
void Scheduler::State::GrowDecoding(int64_t now) {
  for (size_t i = 0; i < running.size(); ++i) {
    Request& request = *running[i];
    if (request.decodes() && request.length == request.reserved && !MakeRoom(request, now)) return;
  }
}

bool Scheduler::State::MakeRoom(Request& request, int64_t now) {
  const int64_t needed = request.length + 1;
  for (;;) {
    for (const int64_t tokens : {std::min(request.limit, request.length + kGrowthTokens), needed}) {
      if (!pool.Grow(request.handle, tokens).ok()) continue;
      request.reserved = tokens;
      return true;
    }
    Request& youngest = *running.back();
    Preempt(youngest, now);
    if (&youngest == &request) return false;
  }
}

void Scheduler::State::Preempt(Request& request, int64_t now) {
  if (request.length > 0) Publish(request, true, now);
  Release(request);
  request.preempted = true;
  ++preempted_waiting;
  ++preemptions;
  waiting[request.id] = &request;
}

void Scheduler::State::Admit(int64_t now) {
  for (auto next = waiting.begin(); next != waiting.end();) {
    if (static_cast<int>(running.size()) >= options.max_running) return;
    Request& request = *next++->second;
    if (WaitsForPrefix(request)) continue;
    if (!Start(request, now)) return;
  }
}

OpenRequest Scheduler::State::Opening(const Request& request) const {
  const auto tokens = static_cast<int64_t>(request.tokens.size());
  const int64_t liability = std::max<int64_t>(0, options.decode_liability_tokens);
  return {
      .tokens = request.tokens,
      .reserve_tokens = std::max(tokens, std::min(request.limit, tokens + liability)),
      .identity = request.identity,
      // Once a token is drawn all rows of its prompt have been used: what a preempted one left may be taken again.
      .reuses = request.reuses || request.drawn() > 0};
}

bool Scheduler::State::Start(Request& request, int64_t now) {
  if (request.refused_at == room_changes && !running.empty()) return false;
  const OpenRequest opening = Opening(request);
  Result<Opened> opened = pool.Open(opening, now);
  if (!opened.ok()) {
    const bool later = opened.status().code() == StatusCode::kResourceExhausted && !running.empty();
    request.refused_at = room_changes;
    // With nobody left whose end would make room it would wait for ever.
    if (!later) End(request, FinishReason::kCancelled, opened.status());
    return !later;
  }
  waiting.erase(request.id);
  if (request.preempted) --preempted_waiting;
  request.running = true;
  request.handle = opened->handle;
  request.length = opened->receipt.reused_tokens;
  request.reserved = opening.reserve_tokens;
  const int64_t block = pool.config().block_tokens;
  request.published = request.length / block * block;
  request.preempted = false;
  if (!request.admitted) request.receipt = std::move(opened->receipt);
  request.admitted = true;
  running.insert(std::upper_bound(running.begin(), running.end(), &request,
                                  [](const Request* a, const Request* b) { return a->id < b->id; }),
                 &request);
  return true;
}

// Whether a running request computes at this moment what this one begins with. Only for older ones: so no two wait for
// each other, and whoever was let past does not come back as one to wait for.
bool Scheduler::State::WaitsForPrefix(Request& request) {
  if (!pool.shares_prefixes() || !request.reuses) return false;
  const auto computes = [](const Request& leader, int64_t tokens) {
    return leader.running && !leader.input_done && leader.published < tokens;
  };
  if (request.leader != RequestId::kNone) {
    const Request* leader = Find(request.leader);
    if (leader != nullptr && computes(*leader, request.leader_tokens)) return true;
    request.leader = RequestId::kNone;
  }
  int64_t most = options.min_shared_tokens - 1;
  const Request* best = nullptr;
  for (const Request* leader : running) {
    if (leader->id > request.id || leader->input_done || leader->identity != request.identity) continue;
    const int64_t common = std::min(CommonPrefix(leader->tokens, request.tokens),
                                    static_cast<int64_t>(request.tokens.size()) - 1);
    if (common <= most || !computes(*leader, common)) continue;
    most = common;
    best = leader;
  }
  if (best == nullptr || most - pool.Reusable(Opening(request)) < options.min_shared_tokens) return false;
  request.leader = best->id;
  request.leader_tokens = most;
  return true;
}

// What of a prompt may come in one step. Where others wait to begin with a part of it, window layers have the rows that
// these need only while the end of that part is the last block computed: so the step ends with that block.
int64_t Scheduler::State::MostOf(const Request& prompt) const {
  int64_t end = static_cast<int64_t>(prompt.tokens.size());
  if (!gives_rows_up) return end - prompt.length;
  for (const auto& [id, other] : waiting) {
    if (other->leader != prompt.id) continue;
    const int64_t block_end = RoundUp(other->leader_tokens, pool.config().block_tokens);
    if (block_end > prompt.length) end = std::min(end, block_end);
  }
  return end - prompt.length;
}

// Prompts get what decoding leaves: half the first that came, the rest those with the least left, and what these do not
// take the first again.
void Scheduler::State::ShareStep(ScheduledStep& step) {
  struct Piece {
    const Request* request;
    int64_t most;
    int64_t tokens;
  };
  std::vector<Piece> prompts;
  int64_t left = options.step_tokens;
  const auto add = [&](const Request& request, int64_t tokens) {
    const bool last = tokens == request.left();
    step.slices.push_back({request.id, request.handle, tokens, last && request.max_tokens != 0});
  };
  for (const Request* request : running) {
    if (request->decodes()) {
      add(*request, 1);
      --left;
    } else if (request->left() > 1) {
      prompts.push_back({request, MostOf(*request), 0});
    }
  }
  if (prompts.empty()) return;
  const auto give = [&left](Piece& piece, int64_t tokens) {
    tokens = std::min({tokens, left, piece.most - piece.tokens});
    piece.tokens += tokens;
    left -= tokens;
  };
  give(prompts[0], (left + 1) / 2);
  std::stable_sort(prompts.begin() + 1, prompts.end(),
                   [](const Piece& a, const Piece& b) { return a.request->left() < b.request->left(); });
  for (size_t i = 1; i < prompts.size(); ++i) give(prompts[i], left);
  give(prompts[0], left);
  for (const Piece& piece : prompts) {
    if (piece.tokens > 0) add(*piece.request, piece.tokens);
  }
}

}  // namespace holdfast
