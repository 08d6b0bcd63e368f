#include "engine/session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/engine_core.h"
#include "engine/generate_options.h"
#include "kv/reencode.h"

namespace holdfast {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

SessionState::SessionState(EngineCore& core, PooledSequence cache, std::optional<CacheConfig> two_phase)
    : core_(core), cache_(std::move(cache)), two_phase_(std::move(two_phase)) {}

Status SessionState::EndPhase() {
  if (!two_phase_ || cache_->length() < static_cast<int64_t>(prompt_size_)) return OkStatus();
  HF_ASSIGN_OR_RETURN(auto encoded, PooledSequence::Open(*two_phase_));
  HF_RETURN_IF_ERROR(Reencode(*cache_, *encoded, core_.pool()));
  cache_ = std::move(encoded);
  two_phase_.reset();
  return OkStatus();
}

void SessionState::ReusePrefix(std::span<const int32_t> tokens) {
  const auto cached = static_cast<size_t>(cache_->length());
  const size_t limit =
      std::min(cached, tokens.size() - 1);  // the last token is evaluated anew for its logits
  size_t common = 0;
  while (common < limit && tokens_[common] == tokens[common]) ++common;
  const auto drop = static_cast<int64_t>(cached - common);
  // Refused beyond what the window still holds, and of a sequence that a failed step has damaged.
  if (!cache_->Rewind(drop).ok()) {
    cache_->Clear();
    common = 0;
  }
  reused_tokens_ = static_cast<int64_t>(common);
}

Status SessionState::Start(std::span<const int32_t> tokens, const GenerateOptions& options) {
  HF_RETURN_IF_ERROR(
      ValidateGenerate(tokens, options, core_.info().vocab_size, cache_->config().max_context));
  if (options.prefill_chunk_tokens < 1) {
    return InvalidArgument("generate: prefill_chunk_tokens is " +
                           std::to_string(options.prefill_chunk_tokens) + ", must be >= 1");
  }
  ReusePrefix(tokens);
  tokens_ = std::vector<int32_t>(tokens.begin(), tokens.end());  // a copy: tokens may point into tokens_
  prompt_size_ = tokens_.size();
  options_ = options;
  sampler_.emplace(options.sampling);
  drawn_.reset();
  text_ = TextStream(options.stop);
  finish_ = FinishReason::kNone;
  cancelled_.store(false, std::memory_order_relaxed);
  prefill_ns_ = decode_ns_ = 0;
  return OkStatus();
}

Result<TokenEvent> SessionState::Step() {
  Session* self = this;
  HF_ASSIGN_OR_RETURN(auto events, core_.StepTogether({&self, 1}));
  return std::move(events.front());
}

std::span<const int32_t> SessionState::completion() const {
  return std::span<const int32_t>(tokens_).subspan(std::min(prompt_size_, tokens_.size()));
}

std::span<const int32_t> SessionState::NextInput() const {
  const auto rest = std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(cache_->length()));
  return rest.first(std::min(rest.size(), static_cast<size_t>(options_.prefill_chunk_tokens)));
}

bool SessionState::WantsLogits() const {
  const bool last_chunk = static_cast<size_t>(cache_->length()) + NextInput().size() == tokens_.size();
  return last_chunk && options_.max_tokens != 0;
}

TokenEvent SessionState::Event() const {
  TokenEvent event;
  event.finish = finish_;
  event.prompt_tokens = static_cast<int64_t>(prompt_size_);
  event.prefilled_tokens = std::min(cache_->length(), event.prompt_tokens);
  return event;
}

TokenEvent SessionState::FinishCancelled() {
  finish_ = FinishReason::kCancelled;
  TokenEvent event = Event();
  event.text = text_.Finish();
  return event;
}

Status SessionState::Draw(std::span<const float> logits, SamplerScratch& scratch) {
  if (drawn_) return OkStatus();
  Drawn drawn;
  HF_ASSIGN_OR_RETURN(drawn.token, sampler_->Sample(logits, {tokens_, completion().size()}, scratch));
  if (const Tokenizer* tokenizer = core_.tokenizer(); tokenizer != nullptr) {
    HF_ASSIGN_OR_RETURN(drawn.piece, tokenizer->Piece(drawn.token, false));
  }
  drawn_ = std::move(drawn);
  return OkStatus();
}

TokenEvent SessionState::Accept(int64_t elapsed_ns) {
  (tokens_.size() == prompt_size_ ? prefill_ns_ : decode_ns_) += elapsed_ns;
  if (static_cast<size_t>(cache_->length()) < tokens_.size()) return Event();
  if (!drawn_) {  // max_tokens is 0
    finish_ = FinishReason::kLength;
    return Event();
  }
  const Drawn drawn = *std::exchange(drawn_, std::nullopt);
  tokens_.push_back(drawn.token);
  std::string text;
  if (core_.IsEndToken(drawn.token) && !options_.ignore_eos) {
    finish_ = FinishReason::kStop;
  } else {
    text = text_.Add(drawn.piece);
    if (text_.stopped()) finish_ = FinishReason::kStop;
  }
  if (finish_ == FinishReason::kNone && static_cast<int64_t>(completion().size()) == options_.max_tokens) {
    finish_ = FinishReason::kLength;
  }
  if (finish_ == FinishReason::kNone && cache_->length() == cache_->config().max_context) {
    finish_ = FinishReason::kContext;
  }
  if (finish_ != FinishReason::kNone) text += text_.Finish();
  // The end itself may have brought a stop string: half a character, say.
  if (text_.stopped()) finish_ = FinishReason::kStop;
  TokenEvent event = Event();
  event.token = drawn.token;
  event.text = std::move(text);
  return event;
}

GenerationStats SessionState::stats() const {
  GenerationStats s;
  s.prompt_tokens = static_cast<int64_t>(prompt_size_);
  s.reused_tokens = reused_tokens_;
  s.completion_tokens = static_cast<int64_t>(completion().size());
  s.prefill_ns = prefill_ns_;
  s.decode_ns = decode_ns_;
  s.live_bytes = cache_->live_bytes();
  s.allocated_bytes = cache_->bytes().total_bytes();
  const auto plan = PlanCache(cache_->config(), cache_->length());
  s.planned_bytes = plan.ok() ? plan->total_bytes() : 0;
  for (const LayerConfig& layer : cache_->config().layers) {
    const auto row = RowBytes(layer);
    s.bytes_per_token += row.ok() ? *row : 0;
  }
  return s;
}

Status SessionState::Rewind(int64_t n) {
  HF_RETURN_IF_ERROR(cache_->Rewind(n));
  if (n == 0) return OkStatus();  // the token that is drawn but not cached yet stays
  tokens_.resize(static_cast<size_t>(cache_->length()));
  drawn_.reset();
  prompt_size_ = std::min(prompt_size_, tokens_.size());
  finish_ = FinishReason::kStop;  // a new Start says how to go on
  return OkStatus();
}

Result<std::unique_ptr<Session>> SessionState::Fork() const {
  if (two_phase_) {
    return FailedPrecondition(
        "fork: the session's two-phase prefill has not ended, and its rows cannot be shared");
  }
  HF_ASSIGN_OR_RETURN(auto cache, cache_.Fork());
  auto copy = std::make_unique<SessionState>(core_, std::move(cache));
  copy->tokens_ = tokens_;
  copy->prompt_size_ = prompt_size_;
  copy->options_ = options_;
  copy->sampler_ = sampler_;
  copy->drawn_ = drawn_;
  copy->text_ = text_;
  copy->finish_ = finish_;
  copy->reused_tokens_ = reused_tokens_;
  copy->prefill_ns_ = prefill_ns_;
  copy->decode_ns_ = decode_ns_;
  return std::unique_ptr<Session>(std::move(copy));
}

}  // namespace holdfast
