// Answers of OpenAI's API as JSON. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/serving.h"
#include "server/json_body.h"

namespace holdfast::server {

// What all parts of one answer begin with.
struct AnswerHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
  bool is_chat = false;
};

// A choice, or what a streamed chunk brings of it.
struct ChoiceText {
  int index = 0;
  std::string text;
  OrderedJson logprobs;  // null: none
  FinishReason finish =
      FinishReason::kNone;  // kContext is told as "length", as OpenAI does, and by name beside it
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// "stop" or "length".
std::string_view OpenAiFinish(FinishReason finish);
OrderedJson UsageJson(const Usage& usage);
// {"reused_tokens", "miss": {"cause", "position", "message"}} of the first choice's receipt; with several
// choices "choices" has them all. That another tenant's prefix would have matched is not told.
OrderedJson ReceiptsJson(std::span<const Receipt> receipts);

// The whole answer as JSON text. take(i) gives choice i, once and in order: with log probabilities a choice as JSON is
// far larger than its text, so that there is never more than one.
std::string AnswerText(const AnswerHead& head, size_t choices, const std::function<ChoiceText(size_t)>& take,
                       const Usage& usage, std::span<const Receipt> receipts);
// A streamed chunk with some of a choice. is_first: of this choice (chat says the role there).
OrderedJson ChunkJson(const AnswerHead& head, ChoiceText part, bool is_first);
// The last chunk of stream_options.include_usage: no choices, the usage.
OrderedJson UsageChunkJson(const AnswerHead& head, const Usage& usage);
// `data: ...` and the empty line after it.
std::string ServerSentEvent(const OrderedJson& json);
inline constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

}  // namespace holdfast::server
