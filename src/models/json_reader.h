// JSON from files that nobody vouches for.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct JsonLimits {
  int64_t max_bytes = 16 << 20;
  int max_depth = 16;            // objects and arrays inside each other
  int64_t max_values = 1 << 20;  // of every kind, keys included
};

// The whole of `text` as one JSON value. `what` begins every message. Errors: kDataLoss (not JSON, not UTF-8,
// a key twice in one object, anything after the value), kOutOfRange (past a limit). Nothing is thrown.
Result<nlohmann::json> ParseJson(std::string_view text, const JsonLimits& limits, const std::string& what);

// "object", "string" and so on, for messages.
std::string JsonTypeName(const nlohmann::json& value);

}  // namespace holdfast
