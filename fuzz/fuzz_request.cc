// Fuzzes what a client may send: JSON bodies of every endpoint, request targets and Authorization headers.
// Whatever is let through is within every limit; whatever is not says why, as JSON.
//
// Byte 0 chooses: completions, chat, tokenize, detokenize, target, header. The rest is the text.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "holdfast/serving.h"
#include "server/api_keys.h"
#include "server/openai_request.h"
#include "server/router.h"

namespace holdfast::server {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void CheckError(const ApiError& error) {
  Require(error.status >= 400 && error.status < 500 && !error.message.empty());
  Require(!OrderedJson::parse(ToText(ErrorJson(error)), nullptr, false).is_discarded());
}

void CheckRequest(const GenerationRequest& request) {
  const SamplingOptions& sampling = request.generate.sampling;
  Require(request.n >= 1 && request.n <= kMaxChoicesPerPrompt);
  Require(request.prompts.size() * static_cast<size_t>(request.n) <= static_cast<size_t>(kMaxChoices));
  Require(request.is_chat ? !request.messages.empty() && request.messages.size() <= kMaxMessages
                          : !request.prompts.empty());
  Require(request.generate.max_tokens == -1 || request.generate.max_tokens >= 1);
  Require(sampling.temperature >= 0.0f && sampling.temperature <= 2.0f);
  Require(sampling.top_p > 0.0f && sampling.top_p <= 1.0f && sampling.min_p >= 0.0f &&
          sampling.min_p <= 1.0f);
  Require(sampling.top_k >= 0 && sampling.repeat_penalty > 0.0f);
  Require(std::abs(sampling.presence_penalty) <= 2.0f && std::abs(sampling.frequency_penalty) <= 2.0f);
  Require(sampling.logit_bias.size() <= static_cast<size_t>(kMaxLogitBiases));
  for (const LogitBias& bias : sampling.logit_bias) Require(bias.token >= 0 && std::abs(bias.bias) <= 100.0f);
  Require(request.top_logprobs >= -1 && request.top_logprobs <= kMaxTopLogprobs);
  Require(request.generate.stop.size() <= kMaxStops);
  for (const std::string& stop : request.generate.stop)
    Require(!stop.empty() && stop.size() <= kMaxStopBytes);
  for (const Prompt& prompt : request.prompts) {
    const auto* tokens = std::get_if<std::vector<int32_t>>(&prompt);
    if (tokens == nullptr) continue;
    Require(!tokens->empty());
    for (const int32_t token : *tokens) Require(token >= 0);
  }
}

template <typename T>
void Check(const std::variant<T, ApiError>& parsed) {
  if (const auto* error = std::get_if<ApiError>(&parsed); error != nullptr) return CheckError(*error);
  if constexpr (std::is_same_v<T, GenerationRequest>) CheckRequest(std::get<T>(parsed));
}

void FuzzBody(int kind, std::string_view text) {
  const auto json = ParseJsonBody(text);
  if (!json.ok()) return CheckError(ErrorOf(json.status()));
  switch (kind) {
    case 0:
      return Check(ParseCompletion(*json));
    case 1:
      return Check(ParseChat(*json));
    case 2:
      return Check(ParseTokenize(*json));
    default:
      return Check(ParseDetokenize(*json));
  }
}

}  // namespace
}  // namespace holdfast::server

int FuzzRequest(const uint8_t* data, size_t size);
int FuzzRequest(const uint8_t* data, size_t size) {
  using namespace holdfast::server;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int kind = data[0] % 6;
  if (kind < 4) {
    FuzzBody(kind, text);
  } else if (kind == 4) {
    const auto route = FindRoute("GET", text);
    if (const auto* none = std::get_if<NoRoute>(&route); none != nullptr) CheckError(none->error);
  } else {
    static const ApiKeys keys = ApiKeys::Create({"a-key-of-some-length"}).value();
    const bool let_in = keys.Find(text).has_value();
    Require(!let_in || text.size() >= 20);
  }
  return 0;
}

#ifdef HOLDFAST_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return FuzzRequest(data, size);
}
#endif
