// Chat formats: how a conversation becomes a prompt.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

enum class ChatFormat : unsigned char { kNone, kChatMl, kGemma };

// Recognises the format from a GGUF chat template's text; an empty template is `without_template`, the
// family's own. Error kUnimplemented for a template that is none of the table's.
Result<ChatFormat> DetectChatFormat(std::string_view chat_template, ChatFormat without_template);

// The system message that a ChatML template writes when the conversation brings none; empty if it writes
// none.
std::string DefaultSystemMessage(std::string_view chat_template);

// The prompt's text, control tokens written out (tokenise with parse_special) except BOS, which is the
// tokenizer's rule. add_generation_prompt: ends where the assistant is to speak. Equal to the model's own
// Jinja template when default_system is its DefaultSystemMessage; empty: no system turn but the
// conversation's own. Errors: kInvalidArgument for a role that the format does not have or not at that place
// (Gemma: users and assistants alternate, beginning with a user, and a system message comes first and is
// written into the first user's), kFailedPrecondition for kNone.
Result<std::string> FormatChat(ChatFormat format, std::span<const ChatMessage> messages,
                               bool add_generation_prompt, std::string_view default_system = {});

}  // namespace holdfast
