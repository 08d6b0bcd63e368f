#include "engine/generate_options.h"

#include <string>

#include "base/status_macros.h"
#include "engine/sampler.h"

namespace holdfast {

Status ValidateGenerate(std::span<const int32_t> tokens, const GenerateOptions& options, int64_t vocab_size,
                        int64_t max_context) {
  HF_RETURN_IF_ERROR(ValidateSampling(options.sampling, vocab_size));
  if (options.max_tokens < -1) {
    return InvalidArgument("generate: max_tokens is " + std::to_string(options.max_tokens) +
                           ", must be >= -1");
  }
  if (tokens.empty()) return InvalidArgument("generate: the prompt has 0 tokens, must have at least 1");
  if (static_cast<int64_t>(tokens.size()) > max_context) {
    return OutOfRange("generate: the prompt has " + std::to_string(tokens.size()) +
                      " tokens, max_context is " + std::to_string(max_context));
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size) {
      return OutOfRange("generate: token " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
                        ", the vocabulary has " + std::to_string(vocab_size));
    }
  }
  return OkStatus();
}

}  // namespace holdfast
