// Tokens that a client has made, against the model's vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "holdfast/engine.h"
#include "server/api_error.h"

namespace holdfast::server {

// Status 400, naming the field, the first token that the model does not have and how many it has. REQUIRES tokens >= 0.
std::optional<ApiError> CheckVocabulary(const Engine& engine, const char* field,
                                        std::span<const int32_t> tokens);

}  // namespace holdfast::server
