// JSON from a stranger: bounded in depth and in values before anything is built from it.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast::server {

using Json = nlohmann::json;  // what came in: lookup by key in logarithmic time, however many keys
using OrderedJson = nlohmann::ordered_json;  // what goes out, in the order it was written

inline constexpr int kMaxJsonDepth = 64;
// Arrays, objects, strings and numbers together. A prompt of token ids is what needs most of them.
inline constexpr int64_t kMaxJsonValues = int64_t{1} << 20;

// Error kInvalidArgument: no JSON (says where), invalid UTF-8, a number that no double holds, or a limit.
Result<Json> ParseJsonBody(std::string_view text);

// JSON on one line; bytes that are no UTF-8 become U+FFFD.
std::string ToText(const OrderedJson& json);

}  // namespace holdfast::server
