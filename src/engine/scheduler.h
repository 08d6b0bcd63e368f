// Which requests run, and what each brings to the next step. Pure logic: no clock, no thread, no model; time comes in as
// a number and tokens come back from whoever ran the step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "holdfast/engine.h"
#include "holdfast/serving.h"
#include "pool/cache_pool.h"

namespace holdfast {

struct SchedulerOptions {
  int max_running = 8;   // fewer where step_tokens does not leave a token for prompts beside them
  int max_queued = 256;  // beside those that may run
  int step_tokens = 512;
  int64_t decode_liability_tokens = 256;
  // A prompt waits for another that is being computed where that brings at least so many tokens more than what is
  // stored already.
  int64_t min_shared_tokens = 16;
};

enum class RequestId : uint64_t { kNone = 0 };

struct ScheduledRequest {
  std::vector<int32_t> tokens;  // the prompt
  int64_t max_tokens = 0;       // of the answer; < 0: as many as context and budget take
  PrefixIdentity identity;
  int64_t deadline = 0;  // absolute; 0: none
  bool reuses = true;    // as OpenRequest
};

// One request's part of a step: input(id) are its tokens.
struct ScheduledSlice {
  RequestId id = RequestId::kNone;
  SequenceHandle handle;
  int64_t tokens = 0;
  bool wants_token = false;  // its last token's logits are wanted, and Draw is to be called
};

struct ScheduledStep {
  std::vector<ScheduledSlice> slices;
  // Requests that ended before the step: cancelled or past their deadline (kCancelled), through with a prompt that asked
  // for no answer (kLength), or refused by a pool that will never have room (kCancelled and why). They are forgotten.
  struct Ended {
    RequestId id = RequestId::kNone;
    FinishReason reason = FinishReason::kNone;
    Status error;
  };
  std::vector<Ended> ended;
};

// Order: a step has one token of every sequence that decodes (so no decode waits longer than one step), then pieces of
// prompts within step_tokens: half of what is left to the prompt that came first, the rest to the one with the least
// left, so that short prompts pass long ones and none starves. Requests start first come, first served; one whose prefix
// another is computing right now waits for it without holding up those behind it. Where growth finds no room the
// youngest running request is preempted: it gives up its rows and comes back at its old place, with the same tokens.
//
// Nothing starves: age is the order of arrival, never of a second admission. The oldest request is never preempted for
// another, waits for nobody's prefix and is first in the queue, so it ends; and so, in turn, does every other.
//
// Not thread-safe. Submit, Cancel and Drop may come between Plan and Committed.
class Scheduler {
 public:
  // The pool must outlive it and have no other users.
  Scheduler(CachePool& pool, const SchedulerOptions& options);
  ~Scheduler();

  // Errors: those of CheckEverFits and CheckRoom(1).
  Result<RequestId> Submit(ScheduledRequest request, int64_t now);
  // Errors: kInvalidArgument (no tokens), kOutOfRange (prompt and answer, or a token of it, are more than context or budget
  // can ever hold, with the numbers). max_tokens: as ScheduledRequest.
  Status CheckEverFits(int64_t prompt_tokens, int64_t max_tokens) const;
  // Whether so many more may come now. Errors, with the numbers: kInvalidArgument (never, even if there were no others),
  // kResourceExhausted (max_queued wait already beside those that run, or that the next Plan has a place for).
  Status CheckRoom(int64_t count) const;
  void Cancel(RequestId id);  // ends at the next Plan. An id that is unknown or ended: nothing

  // The next step, possibly of no slices. Calls the pool's BeginStep where there are some. A request whose token was
  // not drawn yet has no part in it. Errors: those of CachePool::BeginStep; the same call again goes on.
  Result<ScheduledStep> Plan(int64_t now);
  // Valid until the request changes; empty where it is forgotten.
  std::span<const int32_t> input(const ScheduledSlice& slice) const;
  // After the step's rows are committed. Calls the pool's EndStep and publishes.
  void Committed(const ScheduledStep& step, int64_t now);
  // The step failed and no row was added: its requests stay as they were. Calls the pool's EndStep.
  void Aborted(const ScheduledStep& step);
  // The token drawn for a slice that wanted one. Returns why the request ends with it, or kNone; it is forgotten then.
  // end: it is an end token (kStop). kCancelled: the id is unknown. REQUIRES Committed since the slice's Plan.
  FinishReason Draw(RequestId id, int32_t token, bool end, int64_t now);
  // Ends a request because of an error of its own: no step tells of it any more. An unknown id: nothing.
  void Drop(RequestId id, int64_t now);

  struct View {
    RequestId id = RequestId::kNone;
    SequenceState state = SequenceState::kQueued;
    SequenceHandle handle;  // of no sequence while it waits
    Receipt receipt;        // of its first admission
  };
  std::vector<View> requests() const;                   // in order of arrival
  const Receipt* receipt(RequestId id) const;           // null until it was admitted or for an unknown id
  std::span<const int32_t> tokens(RequestId id) const;  // prompt and answer so far; empty for an unknown id
  int64_t longest() const;                              // tokens that prompt and answer may have together
  int64_t most_requests() const;                        // that run and wait
  int64_t queued() const;
  int64_t running() const;
  int64_t preemptions() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast
