// Reads the fields of a JSON object with their types and ranges; the first fault is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/json_body.h"

namespace holdfast::server {

// A field that is absent or null leaves what it would set as it is. After a fault nothing more is read.
class FieldReader {
 public:
  // The object must outlive the reader. path: of the object within the request, "" or "stream_options.".
  explicit FieldReader(const Json& object, std::string path = "");

  // Null where absent, null, or after a fault.
  const Json* Find(const char* name) const;
  void Bool(const char* name, bool* value);
  void Int(const char* name, int64_t min, int64_t max, int64_t* value);
  void Number(const char* name, double min, double max, double* value);
  void Text(const char* name, std::string* value);

  // message goes on after the field's name: "is empty".
  void Fail(const std::string& name, const std::string& message, std::string code = "");
  void Fail(ApiError error);
  const std::optional<ApiError>& error() const { return error_; }
  std::string path(const std::string& name) const { return path_ + name; }

 private:
  const Json& object_;
  std::string path_;
  std::optional<ApiError> error_;
};

// A short form of a value for messages: at most some 60 characters.
std::string ValueText(const Json& value);
// Whether it is an integer in [min, max].
bool IsIntIn(const Json& value, int64_t min, int64_t max);

}  // namespace holdfast::server
