#include "server/testing_engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

namespace holdfast::server {
namespace {

// Bytes at the start of `text` that are whole characters.
size_t WholeCharacters(const std::string& text) {
  size_t end = 0;
  while (end < text.size()) {
    const auto c = static_cast<unsigned char>(text[end]);
    const size_t size = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (end + size > text.size()) break;
    end += size;
  }
  return end;
}

}  // namespace

FakeEngine::FakeEngine() {
  info_.name = "fake";
  info_.path = "/models/fake.gguf";
  info_.vocab_size = 300;
  info_.context_length = 1 << 16;
}

Result<std::vector<int32_t>> FakeEngine::Tokenize(std::string_view text,
                                                  const TokenizeOptions& options) const {
  std::vector<int32_t> tokens;
  if (options.add_special) tokens.push_back(kFakeBegin);
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

Result<std::string> FakeEngine::TokenPiece(int32_t token) const {
  if (token < 256) return std::string(1, static_cast<char>(token));
  return std::string(token == kFakeEnd ? "<end>" : "<begin>");
}

Result<std::string> FakeEngine::Detokenize(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 256) text += static_cast<char>(token);
  }
  return text;
}

Result<std::vector<int32_t>> FakeEngine::TokenizeChat(std::span<const ChatTurn> turns,
                                                      const ChatOptions&) const {
  std::string text;
  for (const ChatTurn& turn : turns) text += turn.role + ":" + turn.content + "\n";
  return Tokenize(text + "assistant:", {.add_special = false, .parse_special = false});
}

struct FakeServing::Channel {
  ServingRequest request;
  std::function<void()> on_event;
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<ServingEvent> events;
  std::string held;
  int64_t made = 0, taken = 0;
  bool ended = false;

  int32_t Next() const {
    const auto& tokens = request.tokens;
    const size_t first = tokens.front() == kFakeBegin && tokens.size() > 1 ? 1 : 0;
    const int32_t token = tokens[first + static_cast<size_t>(made) % (tokens.size() - first)];
    return token == '!' ? kFakeEnd : token;
  }

  void Make(const FakeOptions& options) {
    ServingEvent event;
    if (made == options.fail_after) {
      event.error = Internal("fake: it failed");
      event.finish = FinishReason::kCancelled;
    } else if (request.generate.max_tokens == 0) {
      event.finish = FinishReason::kLength;
    } else {
      event.token = options.ends_at_once ? kFakeEnd : Next();
      if (event.token < 256) held += static_cast<char>(event.token);
      ++made;
      if (event.token == kFakeEnd) {
        event.finish = FinishReason::kStop;
      } else if (event.token == '?') {
        event.finish = FinishReason::kContext;
      } else if (made == request.generate.max_tokens) {
        event.finish = FinishReason::kLength;
      }
      const size_t whole = event.finish == FinishReason::kNone ? WholeCharacters(held) : held.size();
      event.text = held.substr(0, whole);
      held.erase(0, whole);
      if (request.top_logprobs >= 0) event.logprob = TokenLogprob{event.token, -0.5f};
      for (int i = 0; i < request.top_logprobs; ++i)
        event.top.push_back({(event.token + i) % 256, -0.5f - static_cast<float>(i)});
    }
    ended = event.finish != FinishReason::kNone;
    events.push_back(std::move(event));
  }
};

class FakeServing::Request final : public ServedRequest {
 public:
  Request(FakeServing* owner, std::shared_ptr<Channel> channel, int id)
      : owner_(owner), channel_(std::move(channel)), id_(static_cast<uint64_t>(id)) {}
  ~Request() override { owner_->Forget(channel_); }
  uint64_t id() const override { return id_; }
  std::optional<ServingEvent> Take() override {
    const std::lock_guard lock(channel_->mutex);
    if (channel_->events.empty()) return std::nullopt;
    ServingEvent event = std::move(channel_->events.front());
    channel_->events.pop_front();
    if (event.token >= 0) ++channel_->taken;
    return event;
  }
  std::optional<ServingEvent> Wait() override {
    while (true) {
      {
        std::unique_lock lock(channel_->mutex);
        channel_->ready.wait(lock, [&] { return !channel_->events.empty() || channel_->ended; });
      }
      auto event = Take();
      if (event.has_value() || channel_->ended) return event;
    }
  }
  void Cancel() override {}
  Receipt receipt() const override {
    Receipt receipt;
    receipt.prompt_tokens = static_cast<int64_t>(channel_->request.tokens.size());
    receipt.reused_tokens = receipt.prompt_tokens / 2;
    receipt.miss = MissCause::kTokenDiffers;
    receipt.in_other_namespace = channel_->request.tokens[0] == 'N';
    receipt.position = receipt.reused_tokens;
    receipt.message = "fake";
    return receipt;
  }
  int64_t completion_tokens() const override { return channel_->taken; }
  std::vector<PositionLogprobs> TakePromptLogprobs() override {
    const ServingRequest& request = channel_->request;
    std::vector<PositionLogprobs> prompt;
    for (size_t i = 1; request.prompt_logprobs && i < request.tokens.size(); ++i) {
      prompt.push_back({{request.tokens[i], -0.25f}, {}});
      for (int k = 0; k < request.top_logprobs; ++k)
        prompt.back().top.push_back({(request.tokens[i] + k) % 256, -0.25f - static_cast<float>(k)});
    }
    return prompt;
  }

 private:
  FakeServing* owner_;
  std::shared_ptr<Channel> channel_;
  uint64_t id_;
};

FakeServing::FakeServing(FakeOptions options) : options_(options), thread_([this] { Run(); }) {}

FakeServing::~FakeServing() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<std::unique_ptr<ServedRequest>> FakeServing::Submit(const ServingRequest& request,
                                                           std::function<void()> on_event) {
  auto served = SubmitTogether({&request, 1}, std::move(on_event));
  if (!served.ok()) return served.status();
  return std::move(served->front());
}

Result<std::vector<std::unique_ptr<ServedRequest>>> FakeServing::SubmitTogether(
    std::span<const ServingRequest> requests, std::function<void()> on_event) {
  if (draining_) return FailedPrecondition("fake: draining");
  std::vector<std::shared_ptr<Channel>> channels;
  for (const ServingRequest& request : requests) {
    if (static_cast<int64_t>(request.tokens.size()) > engine_.info().context_length)
      return OutOfRange("fake: " + std::to_string(request.tokens.size()) + " tokens, the context has 65536");
    channels.push_back(std::make_shared<Channel>());
    channels.back()->request = request;
    channels.back()->on_event = on_event;
  }
  {
    const std::lock_guard lock(mutex_);
    if (channels_.size() + channels.size() > static_cast<size_t>(options_.max_live))
      return ResourceExhausted("fake: the queue is full");
    channels_.insert(channels_.end(), channels.begin(), channels.end());
    last_ = requests.back();
  }
  changed_.notify_all();
  std::vector<std::unique_ptr<ServedRequest>> served;
  for (auto& channel : channels)
    served.push_back(std::make_unique<Request>(this, std::move(channel), ++submitted_));
  return served;
}

void FakeServing::Forget(const std::shared_ptr<Channel>& channel) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(channels_, channel);
  }
  changed_.notify_all();
}

int FakeServing::live() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(channels_.size());
}

bool FakeServing::WaitForNone(int64_t timeout_ms) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return channels_.empty(); });
}

ServingRequest FakeServing::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void FakeServing::Resume() {
  {
    const std::lock_guard lock(mutex_);
    options_.paused = false;
  }
  changed_.notify_all();
}

void FakeServing::Step() {
  std::vector<std::shared_ptr<Channel>> channels;
  {
    const std::lock_guard lock(mutex_);
    channels = channels_;
  }
  for (const auto& channel : channels) {
    {
      const std::lock_guard lock(channel->mutex);
      if (channel->ended) continue;
      channel->Make(options_);
      most_queued_events_ =
          std::max(most_queued_events_.load(), static_cast<int64_t>(channel->events.size()));
    }
    channel->ready.notify_all();
    if (channel->on_event) channel->on_event();
  }
}

void FakeServing::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || (!channels_.empty() && !options_.paused); });
      if (stopping_) return;
    }
    Step();
    std::this_thread::sleep_for(std::chrono::microseconds(options_.step_us));
  }
}

PoolSnapshot FakeServing::pool() const {
  PoolSnapshot pool;
  pool.budget_bytes = 1000;
  pool.allocated_bytes = 700;
  pool.scratch_bytes = 100;
  pool.blocks = {10, 3, 5, 2};
  pool.sequences = {{7, SequenceState::kDecode, 33, 3}, {8, SequenceState::kQueued, 0, 0}};
  pool.hits = 4;
  pool.misses[static_cast<size_t>(MissCause::kEvicted)] = 2;
  pool.reused_tokens = 60;
  pool.prompt_tokens = 90;
  return pool;
}

ServingMetrics FakeServing::metrics() const {
  ServingMetrics metrics;
  metrics.prompt_tokens = 90;
  metrics.generated_tokens = 12;
  metrics.requests_finished[static_cast<size_t>(FinishReason::kLength)] = 3;
  metrics.batch_tokens = {{1, 8}, {2, 0, 1}, 514.0};
  metrics.ttft_seconds = {{0.1, 1}, {1, 1, 0}, 0.6};
  metrics.token_gap_seconds = {{0.1}, {0, 0}, 0.0};
  return metrics;
}

}  // namespace holdfast::server
