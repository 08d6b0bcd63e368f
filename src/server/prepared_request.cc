#include "server/prepared_request.h"

#include <random>
#include <utility>

#include "server/vocabulary.h"

namespace holdfast::server {
namespace {

std::optional<ApiError> AddPrompt(const Engine& engine, Prompt& prompt, PreparedRequest* prepared) {
  std::vector<int32_t> tokens;
  std::string echo;
  if (auto* text = std::get_if<std::string>(&prompt); text != nullptr) {
    auto made = engine.Tokenize(*text, {.add_special = true, .parse_special = true});
    if (!made.ok()) return ErrorOf(made.status(), "prompt");
    tokens = std::move(*made);
    echo = std::move(*text);
  } else {
    tokens = std::move(std::get<std::vector<int32_t>>(prompt));
    if (auto error = CheckVocabulary(engine, "prompt", tokens)) return error;
    if (prepared->request.echo) {
      auto text_of = engine.Detokenize(tokens);
      if (!text_of.ok()) return ErrorOf(text_of.status(), "prompt");
      echo = std::move(*text_of);
    }
  }
  if (tokens.empty()) return ApiError{400, "prompt: has no tokens, at least one is needed", "prompt", ""};
  prepared->prompts.push_back(std::move(tokens));
  prepared->echoes.push_back(prepared->request.echo ? std::move(echo) : std::string());
  return std::nullopt;
}

}  // namespace

std::variant<PreparedRequest, ApiError> PrepareRequest(const Engine& engine, bool is_chat,
                                                       std::string_view body) {
  auto json = ParseJsonBody(body);
  if (!json.ok()) return ErrorOf(json.status());
  auto parsed = is_chat ? ParseChat(*json) : ParseCompletion(*json);
  *json = nullptr;  // it is far larger than what it says
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  PreparedRequest prepared{std::move(std::get<GenerationRequest>(parsed)), {}, {}};
  GenerationRequest& request = prepared.request;
  if (!request.has_seed)
    request.generate.sampling.seed = (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  for (const LogitBias& bias : request.generate.sampling.logit_bias) {
    if (auto error = CheckVocabulary(engine, "logit_bias", {&bias.token, 1})) return std::move(*error);
  }
  for (Prompt& prompt : request.prompts) {
    if (auto error = AddPrompt(engine, prompt, &prepared)) return std::move(*error);
  }
  if (is_chat) {
    auto tokens = engine.TokenizeChat(request.messages, {});
    if (!tokens.ok()) return ErrorOf(tokens.status(), "messages");
    prepared.prompts.push_back(std::move(*tokens));
    prepared.echoes.emplace_back();
  }
  request.prompts.clear();
  request.messages.clear();
  return prepared;
}

}  // namespace holdfast::server
