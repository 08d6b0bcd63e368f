// Many requests on one model and one byte budget: what a server is built on.
//
//   auto engine = holdfast::Engine::Load("smollm2", {}).value();
//   auto serving = holdfast::ServingEngine::Create(*engine, {.budget_bytes = 512 << 20}).value();
//   auto request = serving->Submit({.tokens = prompt, .generate = {.max_tokens = 64}}, nullptr).value();
//   while (auto event = request->Wait()) std::fputs(event->text.c_str(), stdout);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/engine.h"
#include "holdfast/pool_figures.h"
#include "holdfast/status.h"

namespace holdfast {

enum class CascadeMode : uint8_t { kAuto, kOff };

struct ServingOptions {
  CacheOptions cache;  // storage is paged, whatever it says; two_phase is refused: its rows cannot be shared
  // Ceiling on rows, metadata, idle prefixes and scratch together. 0: what max_running sequences of the context's
  // length take.
  int64_t budget_bytes = 0;
  int64_t budget_tokens = 0;  // a second ceiling, in whole blocks of tokens of running sequences; 0: none
  int max_running = 8;        // sequences in a step
  int max_queued = 256;       // requests that wait beside those that run; more are refused
  int step_tokens = 512;      // of one forward pass: decode tokens first, then pieces of prompts
  // What a request reserves for its answer before it starts, at most: one that goes past it takes more as it grows.
  int64_t decode_liability_tokens = 256;
  bool share_prefixes = true;
  int64_t prefix_ttl_ms =
      0;  // idle prefixes are dropped so long after their last use; 0: only for want of room
  CascadeMode cascade = CascadeMode::kAuto;
};

struct ServingRequest {
  std::vector<int32_t> tokens;
  GenerateOptions generate;  // prefill_chunk_tokens is ignored: the scheduler decides
  std::string name_space;    // requests share prefixes with those of the same name only
  // -1: no log probabilities. n >= 0: of each token drawn and of the n most probable ones, over the whole vocabulary,
  // before penalties, temperature and cuts.
  int top_logprobs = -1;
  // Those of the prompt's tokens too, but for the first, with as many others as top_logprobs says (at least 0). Nothing
  // stored is reused then: they need every position's logits.
  bool prompt_logprobs = false;
  int64_t deadline_ms =
      0;  // from Submit; a request that is not finished by then ends with kCancelled. 0: none
};

inline constexpr int kMaxTopLogprobs = 20;

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0.0f;
};

// Of one position: its token, and the most probable ones, descending.
struct PositionLogprobs {
  TokenLogprob token;
  std::vector<TokenLogprob> top;
};

struct ServingEvent {
  int32_t token = -1;  // -1: nothing but an end
  std::string text;    // as TokenEvent::text
  std::optional<TokenLogprob> logprob;
  std::vector<TokenLogprob> top;  // descending
  FinishReason finish = FinishReason::kNone;
  Status error;  // not ok: the request failed in the middle; finish is then kCancelled
};

// One request in the hands of one consumer, a thread at a time. Destroying it cancels what is not finished: its blocks
// are free before the next step. It may outlive the serving engine, which ends it with an error then, but not the Engine.
class ServedRequest {
 public:
  virtual ~ServedRequest() = default;
  virtual uint64_t id() const = 0;
  // The next event that is ready. Text is decoded here, on the consumer's thread, while the next step runs.
  virtual std::optional<ServingEvent> Take() = 0;
  // Blocks for the next event; none once the request's last one was handed out.
  virtual std::optional<ServingEvent> Wait() = 0;
  virtual void Cancel() = 0;            // thread-safe
  virtual Receipt receipt() const = 0;  // complete once an event was handed out
  virtual int64_t completion_tokens() const = 0;
  // Of the prompt's second token and those that follow: what is known and was not taken yet; all of it once an event was
  // handed out. Empty unless prompt_logprobs was asked for.
  virtual std::vector<PositionLogprobs> TakePromptLogprobs() = 0;
};

enum class SequenceState : uint8_t { kQueued, kWaitingForPrefix, kPrefill, kDecode, kPreempted };
std::string_view SequenceStateName(SequenceState state);

struct ServedSequence {
  uint64_t id = 0;
  SequenceState state = SequenceState::kQueued;
  int64_t tokens = 0;  // cached
  int64_t blocks = 0;  // its own and shared ones
};

struct PoolSnapshot {
  int64_t budget_bytes = 0;
  int64_t allocated_bytes = 0;  // rows, metadata, idle prefixes and scratch
  int64_t scratch_bytes = 0;    // of that
  BlockCounts blocks;
  std::vector<ServedSequence> sequences;
  int64_t hits = 0;                  // requests that reused something
  int64_t misses[kMissCauses] = {};  // by cause, of requests that could have reused more
  int64_t reused_tokens = 0, prompt_tokens = 0;
  int64_t evictions = 0, preemptions = 0;
};

// A Prometheus histogram: counts[i] values were <= bounds[i], not cumulative; the last count is of larger ones.
struct Histogram {
  std::vector<double> bounds;
  std::vector<int64_t> counts;  // bounds.size() + 1
  double sum = 0.0;
};

struct ServingMetrics {
  int64_t prompt_tokens = 0, generated_tokens = 0, steps = 0;
  int64_t requests_finished[5] = {};  // by FinishReason
  int64_t requests_refused = 0;
  int64_t queued = 0, running = 0;
  Histogram batch_tokens, ttft_seconds, token_gap_seconds;
};

// What is served at most, whatever else runs.
struct ServingLimits {
  // Of a prompt and its answer together: the context, or less where the budget holds less.
  int64_t context_tokens = 0;
  int64_t requests = 0;  // that run and wait
};

// Thread-safe. A thread of its own steps the requests.
class ServingEngine {
 public:
  // Reads the whole model file for its digest, and runs the model once over step_tokens tokens so that scratch is as
  // large as it gets. Errors: kInvalidArgument (an option, named with its limit), kResourceExhausted (a budget that does
  // not hold the scratch and one block a layer), kFailedPrecondition (the engine has a serving engine already). The engine must
  // outlive it; until it is gone, steps of the engine's sessions and Engine::Logits are refused, kFailedPrecondition.
  static Result<std::unique_ptr<ServingEngine>> Create(Engine& engine, const ServingOptions& options);
  virtual ~ServingEngine() = default;  // cancels what runs

  // on_event is called from the stepping thread whenever an event is ready for Take, perhaps before Submit returns and
  // never once the request was destroyed (it must be quick, not call back into this object and not destroy the request);
  // may be empty. Errors, before any work: kInvalidArgument, kOutOfRange (a token outside the
  // vocabulary; more tokens than the context or the budget can ever hold, with the numbers), kResourceExhausted (the
  // queue is full), kFailedPrecondition (draining).
  virtual Result<std::unique_ptr<ServedRequest>> Submit(const ServingRequest& request,
                                                        std::function<void()> on_event) = 0;
  // All of them, in their order, or none. Errors besides: kInvalidArgument (more than limits().requests, with the numbers).
  virtual Result<std::vector<std::unique_ptr<ServedRequest>>> SubmitTogether(
      std::span<const ServingRequest> requests, std::function<void()> on_event) = 0;
  virtual ServingLimits limits() const = 0;
  virtual PoolSnapshot pool() const = 0;
  virtual ServingMetrics metrics() const = 0;
  // Refuses new requests from now on; true once none is left, false at the timeout.
  virtual bool Drain(int64_t timeout_ms) = 0;
  virtual const Engine& engine() const = 0;
};

}  // namespace holdfast
