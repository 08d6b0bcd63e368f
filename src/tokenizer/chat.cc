#include "tokenizer/chat.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What Python's str.strip() takes off, which is what Jinja's trim does.
bool IsPythonSpace(int32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string_view Trim(std::string_view text) {
  size_t begin = 0, size = 0;
  bool incomplete = false;
  while (begin < text.size() && IsPythonSpace(ReadCharacter(text, begin, &size, &incomplete))) begin += size;
  text.remove_prefix(begin);
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0u) == 0x80u) --last;
    const int32_t c = ReadCharacter(text, last, &size, &incomplete);
    if (c < 0 || last + size != text.size() || !IsPythonSpace(c)) break;
    text = text.substr(0, last);
  }
  return text;
}

Status WrongRole(size_t index, const std::string& role, const std::string& want) {
  return InvalidArgument("chat: message " + std::to_string(index) + " has role '" + role + "', " + want);
}

Result<std::string> FormatChatMl(std::span<const ChatMessage> messages, std::string_view default_system) {
  std::string out;
  const auto turn = [&out](std::string_view role, std::string_view content) {
    for (const std::string_view part : {std::string_view("<|im_start|>"), role, std::string_view("\n"),
                                        content, std::string_view("<|im_end|>\n")}) {
      out += part;
    }
  };
  if (!messages.empty() && messages[0].role != "system" && !default_system.empty())
    turn("system", default_system);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      return WrongRole(i, role, "must be system, user or assistant");
    }
    turn(role, messages[i].content);
  }
  return out;
}

Result<std::string> FormatGemma(std::span<const ChatMessage> messages) {
  std::string out, system;
  const bool has_system = !messages.empty() && messages[0].role == "system";
  if (has_system) {
    if (messages.size() < 2)
      return WrongRole(0, "system", "and no user turn follows that it could be written into");
    system = messages[0].content + "\n\n";
    messages = messages.subspan(1);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string want = i % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != want) {
      return WrongRole(i + (has_system ? 1 : 0), messages[i].role,
                       "must be " + want + ": the roles alternate");
    }
    out += i % 2 == 0 ? "<start_of_turn>user\n" : "<start_of_turn>model\n";
    if (i == 0) out += system;
    out += Trim(messages[i].content);
    out += "<end_of_turn>\n";
  }
  return out;
}

// The text of a Jinja string literal, from after its beginning to `end`.
std::string Unescape(std::string_view literal) {
  std::string out;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] == '\\' && i + 1 < literal.size()) {
      ++i;
      out.push_back(literal[i] == 'n' ? '\n' : literal[i]);
    } else {
      out.push_back(literal[i]);
    }
  }
  return out;
}

}  // namespace

Result<ChatFormat> DetectChatFormat(std::string_view chat_template, ChatFormat without_template) {
  if (chat_template.empty()) return without_template;
  // Templates with reasoning modes write more than plain ChatML does.
  const bool more = Has(chat_template, "<|im_sep|>") || Has(chat_template, "enable_thinking") ||
                    Has(chat_template, "reasoning");
  if (Has(chat_template, "<|im_start|>") && Has(chat_template, "<|im_end|>") && !more)
    return ChatFormat::kChatMl;
  if (Has(chat_template, "<start_of_turn>") && Has(chat_template, "<end_of_turn>")) return ChatFormat::kGemma;
  std::string start;
  for (const char c : chat_template.substr(0, 60)) start.push_back(c >= 0x20 && c < 0x7f ? c : ' ');
  return Unimplemented("chat template: '" + start + "' is none of chatml, gemma");
}

std::string DefaultSystemMessage(std::string_view chat_template) {
  constexpr std::string_view kStart = "<|im_start|>system", kEnd = "<|im_end|>";
  for (size_t at = chat_template.find(kStart); at != std::string_view::npos;
       at = chat_template.find(kStart, at + 1)) {
    std::string_view rest = chat_template.substr(at + kStart.size());
    if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('\n')) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    // A literal that goes on to <|im_end|> is a message; one that is closed first is followed by the caller's
    // own.
    const size_t end = rest.find(kEnd);
    if (end == std::string_view::npos) break;
    const std::string_view literal = rest.substr(0, end);
    if (Has(literal, "' +") || Has(literal, "\" +") || Has(literal, "{{") || Has(literal, "}}")) continue;
    return Unescape(literal);
  }
  return {};
}

Result<std::string> FormatChat(ChatFormat format, std::span<const ChatMessage> messages,
                               bool add_generation_prompt, std::string_view default_system) {
  if (format == ChatFormat::kNone) return FailedPrecondition("chat: the model has no chat format");
  const bool is_chat_ml = format == ChatFormat::kChatMl;
  Result<std::string> text = is_chat_ml ? FormatChatMl(messages, default_system) : FormatGemma(messages);
  if (text.ok() && add_generation_prompt) {
    *text += is_chat_ml ? "<|im_start|>assistant\n" : "<start_of_turn>model\n";
  }
  return text;
}

}  // namespace holdfast
