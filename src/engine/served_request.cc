#include "engine/served_request.h"

#include <utility>

namespace holdfast {

ServedRequestState::~ServedRequestState() {
  channel_->Detach();
  if (ended_) return;
  Cancel();
  End(FinishReason::kCancelled);
}

void ServedRequestState::Cancel() {
  if (const auto owner = owner_.lock()) owner->Cancel(id_);
}

void ServedRequestState::End(FinishReason reason) {
  ended_ = true;
  if (const auto owner = owner_.lock()) owner->Finished(reason);
}

std::optional<ServingEvent> ServedRequestState::Take() {
  if (ended_) return std::nullopt;
  auto drawn = channel_->TryPop();
  if (!drawn) return std::nullopt;
  return EventOf(*std::move(drawn));
}

std::optional<ServingEvent> ServedRequestState::Wait() {
  if (ended_) return std::nullopt;
  return EventOf(channel_->Pop());
}

void ServedRequestState::AddText(const DrawnToken& drawn, ServingEvent& event) {
  if (drawn.end_token || tokenizer_ == nullptr) return;
  const auto piece = tokenizer_->Piece(drawn.token, false);
  if (!piece.ok()) {
    event.error = piece.status();
    event.finish = FinishReason::kCancelled;
    return;
  }
  event.text = text_.Add(*piece);
  if (text_.stopped()) event.finish = FinishReason::kStop;
}

// A stop string, or a token without text, is found here and not by the step that drew it: what later steps drew
// meanwhile is not told to anyone.
ServingEvent ServedRequestState::EventOf(DrawnToken drawn) {
  ServingEvent event;
  event.token = drawn.token;
  event.finish = drawn.finish;
  event.error = drawn.error;
  event.logprob = drawn.logprob;
  event.top = std::move(drawn.top);
  if (drawn.token >= 0) {
    ++completion_tokens_;
    AddText(drawn, event);
  }
  if (event.finish == FinishReason::kNone) return event;
  event.text += text_.Finish();
  // The end itself may have brought a stop string: half a character, say.
  const bool has_ended = event.finish == FinishReason::kLength || event.finish == FinishReason::kContext;
  if (has_ended && text_.stopped()) event.finish = FinishReason::kStop;
  if (drawn.finish == FinishReason::kNone) Cancel();
  End(event.finish);
  return event;
}

}  // namespace holdfast
