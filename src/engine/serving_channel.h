// From the stepping thread to a request's consumer: what each step brought, in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "holdfast/serving.h"

namespace holdfast {

// One token or an end, before anyone has made text of it.
struct DrawnToken {
  int32_t token = -1;      // -1: nothing but an end
  bool end_token = false;  // it ends the answer and has no text
  FinishReason finish = FinishReason::kNone;
  Status error;
  std::optional<TokenLogprob> logprob;
  std::vector<TokenLogprob> top;
};

// Thread-safe. Holds what was not taken yet: at most a context's worth of tokens.
class RequestChannel {
 public:
  explicit RequestChannel(std::function<void()> on_event) : on_event_(std::move(on_event)) {}

  // The stepping thread's. Push alone wakes nobody, so that a step wakes its consumers when it is through.
  void Push(DrawnToken drawn);
  void Notify();
  void SetReceipt(const Receipt& receipt);
  void AddPromptLogprobs(PositionLogprobs position);  // in the order of positions

  std::optional<DrawnToken> TryPop();
  DrawnToken Pop();  // waits. REQUIRES that the last one was not taken yet
  Receipt receipt() const;
  std::vector<PositionLogprobs> TakePromptLogprobs();
  // From now on on_event is not called and nothing is kept. Waits for a call that is under way.
  void Detach();

 private:
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<DrawnToken> tokens_;
  std::vector<PositionLogprobs> prompt_;
  Receipt receipt_;
  bool detached_ = false;
  std::mutex calling_;  // held while on_event runs, and never with mutex_: it may call TryPop
  std::function<void()> on_event_;
};

}  // namespace holdfast
