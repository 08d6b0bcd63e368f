// Status and Result<T>: how every call of Holdfast that can fail says so.
//
// The library never aborts, prints or exits on input. A failed call returns a Status whose message names
// the operation, the value and the limit, and leaves the object it was called on as it was.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast {

// Kinds of failure a caller can act on. Values are stable.
enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 1,     // the caller's value is wrong whatever the state
  kOutOfRange = 2,          // past a configured limit: max_context, vocabulary, file end
  kNotFound = 3,            // no such model, file, tensor
  kResourceExhausted = 4,   // memory or a budget does not suffice
  kFailedPrecondition = 5,  // right call, wrong state (e.g. rewind past what a ring still holds)
  kUnimplemented = 6,       // understood and refused by name, never ignored
  kDataLoss = 7,            // corrupt or hostile file; unusable state
  kIoError = 8,             // the operating system refused
  kCancelled = 9,           // the caller asked to stop
  kInternal = 10,           // a bug of ours
};

// "INVALID_ARGUMENT" and so on.
std::string_view StatusCodeName(StatusCode code);

// A code and, unless ok, one line `operation: what, the value, the limit`. Copyable; thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() {
  return {};
}
Status InvalidArgument(std::string message);
Status OutOfRange(std::string message);
Status NotFound(std::string message);
Status ResourceExhausted(std::string message);
Status FailedPrecondition(std::string message);
Status Unimplemented(std::string message);
Status DataLoss(std::string message);
Status IoError(std::string message);
Status Cancelled(std::string message);
Status Internal(std::string message);

// A value or the Status that says why there is none. value() REQUIRES ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                  // NOLINT: implicit
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT: implicit

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace holdfast
