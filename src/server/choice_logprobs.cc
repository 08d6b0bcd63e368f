#include "server/choice_logprobs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::server {
namespace {

// JSON has no infinity; OpenAI writes this for a token that cannot be.
constexpr double kImpossible = -9999.0;

double LogprobNumber(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kImpossible;
}

std::string PieceOf(const Engine& engine, int32_t token) {
  auto piece = engine.TokenPiece(token);
  return piece.ok() ? std::move(*piece) : "<token " + std::to_string(token) + ">";
}

int64_t Characters(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

// As JSON text and back: bytes that are no UTF-8 become U+FFFD.
bool IsValidText(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    return true;
  }
  return OrderedJson::parse(OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace)) ==
         text;
}

// A token as a key: half characters are written as bytes, as OpenAI does for completions.
std::string CompletionName(const std::string& piece) {
  if (IsValidText(piece)) return piece;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    name += "\\x";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

OrderedJson ChatToken(const Engine& engine, const TokenLogprob& token) {
  const std::string piece = PieceOf(engine, token.token);
  OrderedJson bytes = OrderedJson::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  OrderedJson json;
  json["token"] = piece;  // made valid when it is written
  json["logprob"] = LogprobNumber(token.logprob);
  json["bytes"] = std::move(bytes);
  return json;
}

}  // namespace

ChoiceLogprobs::ChoiceLogprobs(const Engine& engine, bool is_chat, std::string_view echo)
    : engine_(&engine), is_chat_(is_chat), text_offset_(Characters(echo)) {}

void ChoiceLogprobs::Add(const ServingEvent& event) {
  pending_.push_back({*event.logprob, event.top});
}

void ChoiceLogprobs::AddPrompt(std::span<const int32_t> tokens, std::vector<PositionLogprobs> others) {
  pending_.push_back({{tokens.front(), 0.0f}, {}});
  std::move(others.begin(), others.end(), std::back_inserter(pending_));
  has_first_ = true;
  // Tokens whose text is not part of the prompt's (a BOS that was put before it) stand at its beginning.
  for (const int32_t token : tokens) text_offset_ -= Characters(PieceOf(*engine_, token));
}

OrderedJson ChoiceLogprobs::ChatJson() const {
  OrderedJson content = OrderedJson::array();
  for (const PositionLogprobs& drawn : pending_) {
    OrderedJson token = ChatToken(*engine_, drawn.token);
    token["top_logprobs"] = OrderedJson::array();
    for (const TokenLogprob& top : drawn.top) token["top_logprobs"].push_back(ChatToken(*engine_, top));
    content.push_back(std::move(token));
  }
  OrderedJson json;
  json["content"] = std::move(content);
  return json;
}

OrderedJson ChoiceLogprobs::TopJson(const PositionLogprobs& drawn, const std::string& name) const {
  OrderedJson top = OrderedJson::object();
  for (const TokenLogprob& other : drawn.top) {
    const std::string other_name = CompletionName(PieceOf(*engine_, other.token));
    if (!top.contains(other_name))
      top[other_name] = LogprobNumber(other.logprob);  // the likelier of equal texts
  }
  if (!top.contains(name)) top[name] = LogprobNumber(drawn.token.logprob);
  return top;
}

OrderedJson ChoiceLogprobs::CompletionJson() {
  OrderedJson tokens = OrderedJson::array(), logprobs = OrderedJson::array();
  OrderedJson tops = OrderedJson::array(), offsets = OrderedJson::array();
  for (const PositionLogprobs& drawn : pending_) {
    const std::string piece = PieceOf(*engine_, drawn.token.token);
    const std::string name = CompletionName(piece);
    tokens.push_back(name);
    if (std::exchange(has_first_, false)) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
    } else {
      logprobs.push_back(LogprobNumber(drawn.token.logprob));
      tops.push_back(TopJson(drawn, name));
    }
    offsets.push_back(std::max<int64_t>(0, text_offset_));
    text_offset_ += Characters(piece);
  }
  OrderedJson json;
  json["tokens"] = std::move(tokens);
  json["token_logprobs"] = std::move(logprobs);
  json["top_logprobs"] = std::move(tops);
  json["text_offset"] = std::move(offsets);
  return json;
}

OrderedJson ChoiceLogprobs::Take() {
  return pending_.empty() ? OrderedJson(nullptr) : TakeAll();
}

OrderedJson ChoiceLogprobs::TakeAll() {
  OrderedJson json = is_chat_ ? ChatJson() : CompletionJson();
  pending_.clear();
  return json;
}

size_t ChoiceLogprobs::json_bytes() const {
  return pending_.empty() ? 0 : LogprobsJsonBytes(pending_.size(), pending_.back().top.size());
}

size_t LogprobsJsonBytes(size_t tokens, size_t top) {
  constexpr size_t kTokenBytes = 48;  // a number and a short text, chat's twice as much
  return tokens * (1 + top) * kTokenBytes;
}

}  // namespace holdfast::server
