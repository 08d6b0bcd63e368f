#include "server/load_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast::load {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxQuotedBytes = 200;

// nullptr where `parent` is no object or has no such key.
const Json* Member(const Json* parent, const char* key) {
  if (parent == nullptr || !parent->is_object()) return nullptr;
  const auto found = parent->find(key);
  return found == parent->end() ? nullptr : &*found;
}

int64_t CountOf(const Json* value) {
  if (value == nullptr || !value->is_number_integer()) return 0;
  return std::max<int64_t>(0, value->get<int64_t>());  // past int64 it wraps to below 0
}

std::string Quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text.substr(0, kMaxQuotedBytes)) quoted += c >= 0 && c < ' ' ? ' ' : c;
  return quoted;
}

// `{"message": "..."}`, or a bare string as some servers have it.
std::string MessageOf(const Json& error) {
  if (error.is_string()) return Quoted(error.get_ref<const std::string&>());
  const Json* message = Member(&error, "message");
  if (message != nullptr && message->is_string()) return Quoted(message->get_ref<const std::string&>());
  return Quoted(error.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string ErrorText(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  for (const char* key : {"error", "detail"}) {
    if (const Json* error = Member(&json, key); error != nullptr) return MessageOf(*error);
  }
  return Quoted(body);
}

void AnswerReader::Fail(Status status) {
  if (failure_.ok()) failure_ = std::move(status);
}

void AnswerReader::Event(std::string_view data, int64_t now_ns) {
  if (!failure_.ok() || done_) return;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Json json = Json::parse(data, nullptr, false);
  if (!json.is_object()) return Fail(DataLoss("answer: an event is no JSON object: " + Quoted(data)));
  if (const Json* error = Member(&json, "error"); error != nullptr && !error->is_null()) {
    return Fail(FailedPrecondition("answer: " + MessageOf(*error)));
  }
  if (const Json* usage = Member(&json, "usage"); usage != nullptr && usage->is_object()) {
    has_usage_ = true;
    figures_.output_tokens = CountOf(Member(usage, "completion_tokens"));
    figures_.prompt_tokens = CountOf(Member(usage, "prompt_tokens"));
    figures_.cached_tokens = CountOf(Member(Member(usage, "prompt_tokens_details"), "cached_tokens"));
  }
  const Json* choices = Member(&json, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return;
  const Json* text = Member(&choices->front(), "text");
  if (text == nullptr || !text->is_string() || text->get_ref<const std::string&>().empty()) return;
  if (figures_.first_text_ns < 0) {
    figures_.first_text_ns = now_ns;
  } else {
    figures_.gaps_ms.push_back(static_cast<float>(static_cast<double>(now_ns - last_text_ns_) * 1e-6));
  }
  last_text_ns_ = now_ns;
  ++pieces_;
}

bool AnswerReader::Feed(std::string_view bytes, int64_t now_ns) {
  if (!events_.Feed(bytes, [&](std::string_view data) { Event(data, now_ns); })) {
    Fail(DataLoss("answer: an event is longer than " + std::to_string(SseReader::kMaxEventBytes) + " bytes"));
  }
  return failure_.ok();
}

Result<AnswerFigures> AnswerReader::Finish() const {
  if (!failure_.ok()) return failure_;
  if (!done_)
    return DataLoss("answer: the stream ended without [DONE], after " + std::to_string(pieces_) +
                    " pieces of text");
  if (pieces_ == 0 && !has_usage_) return DataLoss("answer: neither text nor usage came before [DONE]");
  AnswerFigures figures = figures_;
  if (!has_usage_) figures.output_tokens = pieces_;
  return figures;
}

}  // namespace holdfast::load
