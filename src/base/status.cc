#include "holdfast/status.h"

namespace holdfast {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kIoError:
      return "IO_ERROR";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

Status InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
Status OutOfRange(std::string m) {
  return {StatusCode::kOutOfRange, std::move(m)};
}
Status NotFound(std::string m) {
  return {StatusCode::kNotFound, std::move(m)};
}
Status ResourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
Status FailedPrecondition(std::string m) {
  return {StatusCode::kFailedPrecondition, std::move(m)};
}
Status Unimplemented(std::string m) {
  return {StatusCode::kUnimplemented, std::move(m)};
}
Status DataLoss(std::string m) {
  return {StatusCode::kDataLoss, std::move(m)};
}
Status IoError(std::string m) {
  return {StatusCode::kIoError, std::move(m)};
}
Status Cancelled(std::string m) {
  return {StatusCode::kCancelled, std::move(m)};
}
Status Internal(std::string m) {
  return {StatusCode::kInternal, std::move(m)};
}

}  // namespace holdfast
