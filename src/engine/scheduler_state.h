// What the scheduler knows of its requests, shared by its two halves: planning a step, and what happens around it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/scheduler.h"

namespace holdfast {

struct Request {
  RequestId id = RequestId::kNone;
  std::vector<int32_t> tokens;  // the prompt and what was drawn; the first `length` of them are cached
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;
  PrefixIdentity identity;
  int64_t deadline = 0;
  bool reuses = true;
  int64_t limit = 0;  // tokens that it may come to have, answer and all; the last one needs no row

  bool cancelled = false;
  bool admitted = false;  // once: the receipt is valid
  bool preempted = false;
  Receipt receipt;

  // While it runs:
  bool running = false;
  SequenceHandle handle;
  int64_t length = 0;
  int64_t reserved = 0;
  int64_t published = 0;    // tokens that others find
  bool input_done = false;  // what it was admitted with is computed

  // While it waits: for `leader`, until that has published so much.
  RequestId leader = RequestId::kNone;
  int64_t leader_tokens = 0;
  int64_t refused_at = -1;  // Scheduler::State::room_changes when the pool last had no room for it

  int64_t left() const { return static_cast<int64_t>(tokens.size()) - length; }
  int64_t drawn() const { return static_cast<int64_t>(tokens.size()) - prompt_tokens; }
  // Its step is one token: the last one drawn, or the one that a stored prefix leaves of a prompt.
  bool decodes() const { return left() == 1; }
};

// A sequence's reservation grows by so many tokens at a time, where there is room.
inline constexpr int64_t kGrowthTokens = 64;

struct Scheduler::State {
  State(CachePool& the_pool, const SchedulerOptions& the_options);

  Request* Find(RequestId id);
  // Gives up a running request's rows; what was published of them stays for others. room_changes counts it.
  void Release(Request& request);
  void Preempt(Request& request, int64_t now);
  void Publish(Request& request, bool with_tail, int64_t now);
  void Forget(Request& request);
  void End(Request& request, FinishReason reason, const Status& error = OkStatus());

  // Parts of Plan, in their order.
  void Reap(int64_t now);
  void GrowDecoding(int64_t now);
  bool MakeRoom(Request& request, int64_t now);  // false: it was preempted itself
  void Admit(int64_t now);
  bool Start(Request& request, int64_t now);  // false: there is no room now, nor for those behind it
  bool WaitsForPrefix(Request& request);
  void ShareStep(ScheduledStep& step);
  int64_t MostOf(const Request& prompt) const;

  OpenRequest Opening(const Request& request) const;

  CachePool& pool;
  SchedulerOptions options;
  int64_t longest = 0;         // sequence that the pool ever holds
  bool gives_rows_up = false;  // some layer does, of a window or of protected rows
  uint64_t last_id = 0;
  std::map<RequestId, Request> requests;  // in order of arrival, and so are the next two
  std::vector<Request*> running;
  std::map<RequestId, Request*> waiting;
  std::vector<ScheduledStep::Ended> ended;  // not told yet
  int64_t preempted_waiting = 0;
  int64_t cancelled = 0;  // and not forgotten yet: the next Plan does before it starts any
  int64_t preemptions = 0;
  int64_t room_changes = 0;  // a request that the pool refused need not ask again until this moves
};

}  // namespace holdfast
