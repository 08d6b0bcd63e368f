// The endpoints that are answered at once: everything but generation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/serving.h"
#include "server/api_error.h"
#include "server/figures.h"
#include "server/router.h"

namespace holdfast::server {

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides what every answer has
};

HttpAnswer ErrorAnswer(const ApiError& error);

struct ServedModel {
  std::string name;
  int64_t created = 0;  // when the server was started
};

// Endpoints without a body. REQUIRES none of kCompletions, kChat, kTokenize, kDetokenize. draining: /health
// says so with 503.
HttpAnswer AnswerEndpoint(const Route& route, const ServingEngine& serving, const ServedModel& model,
                          const HttpFigures& http, bool draining);
// kTokenize and kDetokenize. May be called from any thread.
HttpAnswer AnswerTokenizing(Endpoint endpoint, std::string_view body, const ServingEngine& serving);

}  // namespace holdfast::server
