// Chat formats: how a conversation becomes a prompt.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct ChatMessage {
  std::string role;     // "system", "user", "assistant"
  std::string content;
};

enum class ChatFormat : unsigned char { kNone, kChatMl, kGemma };

// Recognises the format from a GGUF chat template's text; an empty template falls back on the architecture's own
// (gemma3: kGemma). Error kUnimplemented for a template that is none of the table's.
Result<ChatFormat> DetectChatFormat(std::string_view chat_template, std::string_view architecture);

// The prompt's text, control tokens written out (tokenise with parse_special). add_generation_prompt: ends where the
// assistant is to speak. Equal to the model's own Jinja template, default system message included. first_turn: false leaves
// out what only begins a conversation, for a cache that goes on over turns. Error: kInvalidArgument for a role that the
// format does not have.
Result<std::string> FormatChat(ChatFormat format, std::span<const ChatMessage> messages, bool add_generation_prompt,
                               std::string_view default_system = {});

}  // namespace holdfast
