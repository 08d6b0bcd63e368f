// Errors as OpenAI's API states them.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "server/json_body.h"

namespace holdfast::server {

struct ApiError {
  int status = 400;  // of HTTP
  std::string message;
  std::string param;  // the request's field at fault; empty: none
  std::string code;   // for programs, such as "context_length_exceeded"; empty: none
};

// What a failed call of the library means to a client. REQUIRES !status.ok().
ApiError ErrorOf(const Status& status, std::string param = "");

// {"error": {"message", "type", "param", "code"}}
OrderedJson ErrorJson(const ApiError& error);

}  // namespace holdfast::server
