// Which endpoint a request line means, and who may use it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/api_error.h"

namespace holdfast::server {

enum class Endpoint : uint8_t {
  kPage,
  kHealth,
  kMetrics,
  kCache,
  kModels,
  kModel,
  kCompletions,
  kChat,
  kTokenize,
  kDetokenize,
};

enum class Access : uint8_t { kAnyone, kTenant, kOperator };

struct Route {
  Endpoint endpoint = Endpoint::kHealth;
  Access access = Access::kOperator;
  std::string name;  // kModel: the model asked for
};

struct NoRoute {
  ApiError error;     // 404 or 405
  std::string allow;  // 405: the methods there are
};

// What a target names, as browsers and clients send it, or as they do to a proxy: with scheme and authority before its path,
// the authority then in Host's place (RFC 9112, section 3.2.2).
struct TargetParts {
  std::optional<std::string_view> authority;  // without a user's name
  std::string_view path;                      // without its query
};
TargetParts SplitTarget(std::string_view target);

// target: as in the request line, its query ignored. HEAD is allowed where GET is.
std::variant<Route, NoRoute> FindRoute(std::string_view method, std::string_view target);

// `%20` and the like; what is no such escape stays as it is.
std::string DecodePercent(std::string_view text);

}  // namespace holdfast::server
