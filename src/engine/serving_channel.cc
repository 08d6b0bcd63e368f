#include "engine/serving_channel.h"

#include <utility>

namespace holdfast {

void RequestChannel::Push(DrawnToken drawn) {
  const std::lock_guard lock(mutex_);
  if (!detached_) tokens_.push_back(std::move(drawn));
}

void RequestChannel::Notify() {
  ready_.notify_all();
  const std::lock_guard lock(calling_);
  if (on_event_) on_event_();
}

void RequestChannel::SetReceipt(const Receipt& receipt) {
  const std::lock_guard lock(mutex_);
  receipt_ = receipt;
}

void RequestChannel::AddPromptLogprobs(PositionLogprobs position) {
  const std::lock_guard lock(mutex_);
  if (!detached_) prompt_.push_back(std::move(position));
}

std::vector<PositionLogprobs> RequestChannel::TakePromptLogprobs() {
  const std::lock_guard lock(mutex_);
  return std::exchange(prompt_, {});
}

std::optional<DrawnToken> RequestChannel::TryPop() {
  const std::lock_guard lock(mutex_);
  if (tokens_.empty()) return std::nullopt;
  DrawnToken first = std::move(tokens_.front());
  tokens_.pop_front();
  return first;
}

DrawnToken RequestChannel::Pop() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !tokens_.empty(); });
  DrawnToken first = std::move(tokens_.front());
  tokens_.pop_front();
  return first;
}

Receipt RequestChannel::receipt() const {
  const std::lock_guard lock(mutex_);
  return receipt_;
}

void RequestChannel::Detach() {
  {
    const std::lock_guard lock(mutex_);
    detached_ = true;
    tokens_.clear();
    prompt_.clear();
  }
  const std::lock_guard lock(calling_);
  on_event_ = nullptr;
}

}  // namespace holdfast
