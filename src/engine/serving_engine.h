// The serving engine behind holdfast/serving.h: checks what comes in, and a thread that runs the loop.
#pragma once

#include <memory>
#include <thread>

#include "engine/engine_core.h"
#include "engine/serving_loop.h"
#include "holdfast/serving.h"

namespace holdfast {

class ServingEngineState final : public ServingEngine {
 public:
  ServingEngineState(EngineCore::ServingClaim core, std::shared_ptr<ServingLoop> loop);
  ~ServingEngineState() override;

  Result<std::unique_ptr<ServedRequest>> Submit(const ServingRequest& request,
                                                std::function<void()> on_event) override;
  Result<std::vector<std::unique_ptr<ServedRequest>>> SubmitTogether(std::span<const ServingRequest> requests,
                                                                     std::function<void()> on_event) override;
  ServingLimits limits() const override { return loop_->limits(); }
  PoolSnapshot pool() const override { return loop_->Snapshot(); }
  ServingMetrics metrics() const override { return loop_->metrics(); }
  bool Drain(int64_t timeout_ms) override { return loop_->Drain(timeout_ms); }
  const Engine& engine() const override { return *core_; }

  ServingLoop& loop() { return *loop_; }

 private:
  EngineCore::ServingClaim core_;
  std::shared_ptr<ServingLoop> loop_;  // requests know it weakly: they may outlive the engine
  std::thread thread_;
};

}  // namespace holdfast
