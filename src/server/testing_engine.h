// An engine without a model for the server's tests: tokens are bytes, and an answer repeats its prompt.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/serving.h"

namespace holdfast::server {

inline constexpr int32_t kFakeEnd = 256, kFakeBegin = 257;

class FakeEngine final : public Engine {
 public:
  FakeEngine();
  const ModelInfo& info() const override { return info_; }
  Result<CacheConfig> MakeCacheConfig(const CacheOptions&) const override { return Unimplemented("fake"); }
  std::vector<LayerInfo> Layers(const CacheConfig&) const override { return {}; }
  Result<std::unique_ptr<Session>> NewSession(const CacheOptions&) override { return Unimplemented("fake"); }
  Result<std::vector<TokenEvent>> StepTogether(std::span<Session* const>) override {
    return Unimplemented("fake");
  }
  Result<std::vector<int32_t>> Tokenize(std::string_view text, const TokenizeOptions& options) const override;
  Result<std::string> Detokenize(std::span<const int32_t> tokens) const override;
  Result<std::string> TokenPiece(int32_t token) const override;
  bool IsEndToken(int32_t token) const override { return token == kFakeEnd; }
  int32_t bos_token() const override { return kFakeBegin; }
  bool adds_bos() const override { return false; }
  // `role:content` and a line's end for each turn, then `assistant:`.
  Result<std::vector<int32_t>> TokenizeChat(std::span<const ChatTurn> turns,
                                            const ChatOptions&) const override;
  Status Logits(std::span<const int32_t>, const CacheOptions&, const LogitsOptions&,
                const std::function<void(int64_t, int64_t, const float*)>&) override {
    return Unimplemented("fake");
  }

 private:
  ModelInfo info_;
};

struct FakeOptions {
  int step_us = 0;      // between steps, each of which gives every request a token
  int max_live = 1000;  // more are refused: the queue is full
  int64_t most_requests = 1000;
  int64_t context_tokens = 1 << 15;
  bool paused = false;        // nothing comes of any request
  bool ends_at_once = false;  // an answer is an end token alone
  int64_t fail_after = -1;    // a request fails with kInternal after so many tokens
};

// A `!` in the prompt is an end token when the answer comes to it; '?' ends it as the context's end does.
class FakeServing final : public ServingEngine {
 public:
  explicit FakeServing(FakeOptions options = {});
  ~FakeServing() override;
  Result<std::unique_ptr<ServedRequest>> Submit(const ServingRequest& request,
                                                std::function<void()> on_event) override;
  Result<std::vector<std::unique_ptr<ServedRequest>>> SubmitTogether(std::span<const ServingRequest> requests,
                                                                     std::function<void()> on_event) override;
  ServingLimits limits() const override { return {options_.context_tokens, options_.most_requests}; }
  PoolSnapshot pool() const override;
  ServingMetrics metrics() const override;
  bool Drain(int64_t) override { return true; }
  const Engine& engine() const override { return engine_; }

  int live() const;  // requests that exist
  int submitted() const { return submitted_.load(); }
  // Waits until no request exists. false: some do after so long.
  bool WaitForNone(int64_t timeout_ms) const;
  ServingRequest last() const;
  int64_t most_queued_events() const { return most_queued_events_.load(); }
  void Resume();  // a paused one
  void DrainNow() { draining_ = true; }

 private:
  struct Channel;
  class Request;
  void Step();
  void Run();
  void Forget(const std::shared_ptr<Channel>& channel);

  FakeEngine engine_;
  FakeOptions options_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::shared_ptr<Channel>> channels_;
  ServingRequest last_;
  bool stopping_ = false;
  std::atomic<bool> draining_{false};
  std::atomic<int> submitted_{0};
  std::atomic<int64_t> most_queued_events_{0};
  std::thread thread_;
};

}  // namespace holdfast::server
