#include "server/vocabulary.h"

#include <string>

namespace holdfast::server {

std::optional<ApiError> CheckVocabulary(const Engine& engine, const char* field,
                                        std::span<const int32_t> tokens) {
  const int64_t vocab_size = engine.info().vocab_size;
  for (const int32_t token : tokens) {
    if (token < vocab_size) continue;
    return ApiError{400,
                    std::string(field) + ": token " + std::to_string(token) + ", the vocabulary has " +
                        std::to_string(vocab_size),
                    field, ""};
  }
  return std::nullopt;
}

}  // namespace holdfast::server
