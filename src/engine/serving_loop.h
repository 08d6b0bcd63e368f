// The stepping of many requests: plan, forward pass, draw, tell.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/engine_core.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/served_request.h"
#include "engine/serving_channel.h"
#include "engine/serving_memory.h"
#include "engine/serving_metrics.h"
#include "holdfast/serving.h"
#include "kv/batch.h"
#include "pool/cache_pool.h"

namespace holdfast {

// Everything but Run may be called from any thread. One mutex guards pool, scheduler and records; it is not held during
// forward passes, so nobody waits for one.
class ServingLoop final : public RequestOwner {
 public:
  ServingLoop(EngineCore& core, const ServingOptions& options, const Sha256& model, ServingScratch scratch,
              std::unique_ptr<CachePool> pool);

  // Steps until Stop, and cancels what is left then.
  void Run();
  void Stop();

  struct Submitted {
    RequestId id = RequestId::kNone;
    std::shared_ptr<RequestChannel> channel;
  };
  // All or none. REQUIRES valid options and tokens. Errors: those of Scheduler::CheckEverFits and CheckRoom;
  // kFailedPrecondition (draining).
  Result<std::vector<Submitted>> Submit(std::span<const ServingRequest> requests,
                                        const std::function<void()>& on_event);
  void Cancel(RequestId id) override;
  void Finished(FinishReason reason) override { metrics_.Finished(reason); }
  void Refused(int64_t requests) { metrics_.Refused(requests); }
  bool Drain(int64_t timeout_ms);

  const CacheConfig& config() const { return pool_->config(); }
  // Never change: no lock is needed.
  ServingLimits limits() const { return {scheduler_.longest(), scheduler_.most_requests()}; }
  int64_t scratch_limit_bytes() const { return scratch_.limit_bytes(); }
  PoolSnapshot Snapshot() const;
  ServingMetrics metrics() const { return metrics_.Read(); }
  // Of the pool and of the budget. For tests; between steps only, so that it may wait for one.
  Status CheckInvariants();

 private:
  struct Record {
    std::shared_ptr<RequestChannel> channel;
    Sampler sampler;
    size_t prompt_tokens = 0;
    int top_logprobs = -1;
    size_t prompt_known = 0;  // tokens of the prompt whose log probabilities need no more computing
    bool ignore_eos = false;
    bool admitted = false;
    int64_t submitted_us = 0;
    int64_t last_token_us = 0;  // 0: none yet
  };
  // A row of logits: what a token is drawn from, or asked for the log probability of the prompt's next token.
  struct Draw {
    RequestId id = RequestId::kNone;
    Record* record = nullptr;
    int32_t prompt_token = -1;  // -1: a token is drawn
    TokenHistory history;
    DrawnToken drawn;
  };

  Result<Submitted> SubmitOne(const ServingRequest& request, const std::function<void()>& on_event,
                              int64_t now);
  void Wait(std::unique_lock<std::mutex>& lock, bool busy);
  void RunStep(const ScheduledStep& step, std::unique_lock<std::mutex>& lock);
  Result<KvBatch> BeginBatch(const ScheduledStep& step);
  void NoteAdmitted(const ScheduledSlice& slice, Record& record);
  void AddPromptRows(const ScheduledSlice& slice, Record& record, int64_t cached);
  void DrawTokens(int64_t first, int64_t count);
  void DrawOne(Draw& draw, const float* row, SamplerScratch& scratch) const;
  void Deliver(Draw& draw, int64_t now);
  void FailStep(const ScheduledStep& step, const Status& status);
  void FailAll(const Status& status);
  void EndRequest(RequestId id, DrawnToken last);
  void NotifyConsumers(std::unique_lock<std::mutex>& lock);
  void PublishFigures();

  EngineCore& core_;
  const ServingOptions options_;
  const Sha256 model_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // of Run
  std::condition_variable idle_;  // of Drain: a request ended
  std::unique_ptr<CachePool> pool_;
  Scheduler scheduler_;
  std::unordered_map<uint64_t, Record> records_;
  bool woken_ = false, stopping_ = false, draining_ = false;
  bool in_pass_ = false;

  // The stepping thread's.
  ServingScratch scratch_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> logits_rows_;
  std::vector<Draw> draws_;  // as logits_rows_
  std::vector<std::shared_ptr<RequestChannel>> to_notify_;

  MetricsLog metrics_;
  mutable std::mutex figures_mutex_;
  PoolSnapshot figures_;
};

}  // namespace holdfast
