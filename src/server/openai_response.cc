#include "server/openai_response.h"

#include <utility>

namespace holdfast::server {
namespace {

OrderedJson HeadJson(const AnswerHead& head, bool is_chunk) {
  OrderedJson json;
  json["id"] = head.id;
  json["object"] =
      head.is_chat ? (is_chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  json["created"] = head.created;
  json["model"] = head.model;
  return json;
}

void AddFinish(FinishReason finish, OrderedJson* choice) {
  (*choice)["finish_reason"] =
      finish == FinishReason::kNone ? OrderedJson(nullptr) : OrderedJson(OpenAiFinish(finish));
  if (finish == FinishReason::kContext) (*choice)["finish_detail"] = FinishReasonName(finish);
}

OrderedJson ChoiceJson(const AnswerHead& head, ChoiceText part) {
  OrderedJson choice;
  choice["index"] = part.index;
  if (head.is_chat) {
    choice["message"] = {{"role", "assistant"}, {"content", std::move(part.text)}};
  } else {
    choice["text"] = std::move(part.text);
  }
  choice["logprobs"] = std::move(part.logprobs);
  AddFinish(part.finish, &choice);
  return choice;
}

OrderedJson ReceiptJson(const Receipt& receipt) {
  OrderedJson json;
  json["reused_tokens"] = receipt.reused_tokens;
  json["miss"] = {
      {"cause", MissCauseName(receipt.miss)}, {"position", receipt.position}, {"message", receipt.message}};
  return json;
}

}  // namespace

std::string_view OpenAiFinish(FinishReason finish) {
  return finish == FinishReason::kStop ? "stop" : "length";
}

OrderedJson UsageJson(const Usage& usage) {
  OrderedJson json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}};
  return json;
}

OrderedJson ReceiptsJson(std::span<const Receipt> receipts) {
  if (receipts.empty()) return nullptr;
  OrderedJson json = ReceiptJson(receipts.front());
  if (receipts.size() == 1) return json;
  json["choices"] = OrderedJson::array();
  for (const Receipt& receipt : receipts) json["choices"].push_back(ReceiptJson(receipt));
  return json;
}

std::string AnswerText(const AnswerHead& head, size_t choices, const std::function<ChoiceText(size_t)>& take,
                       const Usage& usage, std::span<const Receipt> receipts) {
  std::string text = ToText(HeadJson(head, false));
  text.back() = ',';
  text += "\"choices\":[";
  for (size_t i = 0; i < choices; ++i) {
    if (i > 0) text += ',';
    text += ToText(ChoiceJson(head, take(i)));
  }
  OrderedJson rest;
  rest["usage"] = UsageJson(usage);
  rest["holdfast"] = ReceiptsJson(receipts);
  return text + "]," + ToText(rest).substr(1);
}

OrderedJson ChunkJson(const AnswerHead& head, ChoiceText part, bool is_first) {
  OrderedJson choice;
  choice["index"] = part.index;
  if (head.is_chat) {
    OrderedJson delta = OrderedJson::object();
    if (is_first) delta["role"] = "assistant";
    if (is_first || part.finish == FinishReason::kNone) delta["content"] = std::move(part.text);
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = std::move(part.text);
  }
  choice["logprobs"] = std::move(part.logprobs);
  AddFinish(part.finish, &choice);
  OrderedJson json = HeadJson(head, true);
  json["choices"] = OrderedJson::array({std::move(choice)});
  return json;
}

OrderedJson UsageChunkJson(const AnswerHead& head, const Usage& usage) {
  OrderedJson json = HeadJson(head, true);
  json["choices"] = OrderedJson::array();
  json["usage"] = UsageJson(usage);
  return json;
}

std::string ServerSentEvent(const OrderedJson& json) {
  return "data: " + ToText(json) + "\n\n";
}

}  // namespace holdfast::server
