// A request in its consumer's hands: makes text of tokens, so that no step has to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/scheduler.h"
#include "engine/serving_channel.h"
#include "engine/text_stream.h"
#include "holdfast/serving.h"
#include "tokenizer/tokenizer.h"

namespace holdfast {

// What a request tells the engine that runs it. Thread-safe.
class RequestOwner {
 public:
  virtual ~RequestOwner() = default;
  virtual void Cancel(RequestId id) = 0;
  // Once a request: as its consumer saw it end.
  virtual void Finished(FinishReason reason) = 0;
};

class ServedRequestState final : public ServedRequest {
 public:
  // tokenizer may be null: text is then empty. It must outlive the request; the owner need not.
  ServedRequestState(RequestId id, std::shared_ptr<RequestChannel> channel, std::weak_ptr<RequestOwner> owner,
                     const Tokenizer* tokenizer, std::vector<std::string> stop)
      : id_(id),
        channel_(std::move(channel)),
        owner_(std::move(owner)),
        tokenizer_(tokenizer),
        text_(std::move(stop)) {}
  ~ServedRequestState() override;

  uint64_t id() const override { return static_cast<uint64_t>(id_); }
  std::optional<ServingEvent> Take() override;
  std::optional<ServingEvent> Wait() override;
  void Cancel() override;
  Receipt receipt() const override { return channel_->receipt(); }
  int64_t completion_tokens() const override { return completion_tokens_; }
  std::vector<PositionLogprobs> TakePromptLogprobs() override { return channel_->TakePromptLogprobs(); }

 private:
  ServingEvent EventOf(DrawnToken drawn);
  void AddText(const DrawnToken& drawn, ServingEvent& event);
  void End(FinishReason reason);

  const RequestId id_;
  const std::shared_ptr<RequestChannel> channel_;
  const std::weak_ptr<RequestOwner> owner_;
  const Tokenizer* tokenizer_;
  TextStream text_;
  int64_t completion_tokens_ = 0;
  bool ended_ = false;
};

}  // namespace holdfast
