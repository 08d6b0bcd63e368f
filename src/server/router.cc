#include "server/router.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <charconv>

namespace holdfast::server {
namespace {

struct Line {
  std::string_view path;
  bool is_post;
  Endpoint endpoint;
  Access access;
};

constexpr Line kLines[] = {
    {"/", false, Endpoint::kPage, Access::kOperator},
    {"/health", false, Endpoint::kHealth, Access::kAnyone},
    {"/metrics", false, Endpoint::kMetrics, Access::kOperator},
    {"/v1/cache", false, Endpoint::kCache, Access::kOperator},
    {"/v1/models", false, Endpoint::kModels, Access::kTenant},
    {"/v1/completions", true, Endpoint::kCompletions, Access::kTenant},
    {"/v1/chat/completions", true, Endpoint::kChat, Access::kTenant},
    {"/tokenize", true, Endpoint::kTokenize, Access::kTenant},
    {"/detokenize", true, Endpoint::kDetokenize, Access::kTenant},
};
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr size_t kShownCharacters = 80;

std::string Shown(std::string_view text) {
  return std::string(text.substr(0, kShownCharacters)) + (text.size() > kShownCharacters ? "..." : "");
}

}  // namespace

std::string DecodePercent(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* digits = text.data() + i + 1;
      const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
      if (error == std::errc() && end == digits + 2) {
        decoded += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

TargetParts SplitTarget(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  TargetParts parts;
  if (boost::beast::iequals(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    const size_t end = std::min(target.find_first_of("/?#"), target.size());
    const std::string_view authority = target.substr(0, end);
    parts.authority = authority.substr(authority.rfind('@') + 1);  // of none all of it: npos + 1 is 0
    target.remove_prefix(end);
    if (!target.starts_with('/')) target = "/";  // a query alone is of the root
  }
  parts.path = target.substr(0, target.find_first_of("?#"));
  return parts;
}

std::variant<Route, NoRoute> FindRoute(std::string_view method, std::string_view target) {
  const std::string_view path = SplitTarget(target).path;
  const bool is_model = path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size();
  constexpr Line kModelLine = {kModelPrefix, false, Endpoint::kModel, Access::kTenant};
  const Line* found = is_model ? &kModelLine : nullptr;
  for (const Line& line : kLines) {
    if (line.path == path) found = &line;
  }
  if (found == nullptr) {
    return NoRoute{{404, "request: no such path " + Shown(path) + ", see /v1/models, /v1/chat/completions",
                    "", "not_found"},
                   ""};
  }
  if (found->is_post ? method == "POST" : method == "GET" || method == "HEAD") {
    return Route{found->endpoint, found->access,
                 is_model ? DecodePercent(path.substr(kModelPrefix.size())) : std::string()};
  }
  const std::string allow = found->is_post ? "POST" : "GET, HEAD";
  return NoRoute{{405, "request: " + Shown(method) + " on " + Shown(path) + ", the method must be " + allow,
                  "", "method_not_allowed"},
                 allow};
}

}  // namespace holdfast::server
