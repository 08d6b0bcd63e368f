// Requests of OpenAI's API as values. Pure: no engine, no socket. What is known and cannot be done is refused
// by name; what is unknown is ignored, as OpenAI does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/engine.h"
#include "server/api_error.h"

namespace holdfast::server {

inline constexpr int64_t kMaxChoicesPerPrompt = 16;
inline constexpr int64_t kMaxChoices = 128;  // prompts times n
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 1024;
inline constexpr size_t kMaxMessages = 4096;

// Text, or tokens where the client has made them.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct GenerationRequest {
  bool is_chat = false;
  std::vector<Prompt> prompts;     // completions
  std::vector<ChatTurn> messages;  // chat
  GenerateOptions generate;        // sampling.seed: see has_seed
  bool has_seed = false;           // otherwise the server draws one
  int n = 1;
  int top_logprobs = -1;  // as ServingRequest
  bool stream = false, include_usage = false;
  bool echo = false;  // with log probabilities: the prompt's too
  bool wants_prompt_logprobs() const { return echo && top_logprobs >= 0; }
};

// Errors: status 400, naming the field, its value and the limit.
std::variant<GenerationRequest, ApiError> ParseCompletion(const Json& body);
std::variant<GenerationRequest, ApiError> ParseChat(const Json& body);

// `{"content": text}` of llama.cpp; `{"prompt": text}` or `{"messages": [...]}` of vLLM.
struct TokenizeRequest {
  std::string text;
  std::vector<ChatTurn> messages;  // not empty: those, in the model's chat format
  TokenizeOptions options;
  bool with_pieces = false;
};
std::variant<TokenizeRequest, ApiError> ParseTokenize(const Json& body);
// `{"tokens": [...]}`
std::variant<std::vector<int32_t>, ApiError> ParseDetokenize(const Json& body);

}  // namespace holdfast::server
