#include "server/api_error.h"

#include <utility>

namespace holdfast::server {
namespace {

std::string_view TypeOf(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

OrderedJson TextOrNull(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

}  // namespace

ApiError ErrorOf(const Status& status, std::string param) {
  ApiError error{500, status.message(), std::move(param), ""};
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      error.status = 400;
      break;
    case StatusCode::kOutOfRange:
      error.status = 400;
      error.code = "context_length_exceeded";
      break;
    case StatusCode::kUnimplemented:
      error.status = 400;
      error.code = "unsupported";
      break;
    case StatusCode::kNotFound:
      error.status = 404;
      break;
    case StatusCode::kResourceExhausted:
      error.status = 429;
      error.code = "queue_full";
      break;
    case StatusCode::kFailedPrecondition:
      error.status = 503;
      error.code = "draining";
      break;
    case StatusCode::kCancelled:
      error.status = 503;
      error.code = "cancelled";
      break;
    case StatusCode::kOk:
    case StatusCode::kDataLoss:
    case StatusCode::kIoError:
    case StatusCode::kInternal:
      error.code = "internal_error";
      break;
  }
  return error;
}

OrderedJson ErrorJson(const ApiError& error) {
  OrderedJson json;
  json["error"] = {{"message", error.message},
                   {"type", TypeOf(error.status)},
                   {"param", TextOrNull(error.param)},
                   {"code", TextOrNull(error.code)}};
  return json;
}

}  // namespace holdfast::server
