// A generation request with its prompts as tokens: the part of a request's work that takes time in proportion
// to its size and needs no other state, so that it may run on any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/openai_request.h"

namespace holdfast::server {

struct PreparedRequest {
  GenerationRequest request;  // its prompts and messages are used up
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echoes;  // a prompt's text, where it is to be part of the answer
};

// body: as it came. Errors: those of ParseCompletion and ParseChat, and what tokenising refuses.
std::variant<PreparedRequest, ApiError> PrepareRequest(const Engine& engine, bool is_chat,
                                                       std::string_view body);

}  // namespace holdfast::server
