#include "server/field_reader.h"

#include <cmath>
#include <sstream>
#include <utility>

namespace holdfast::server {
namespace {

constexpr size_t kShownCharacters = 60;

std::string NumberText(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

std::string ValueText(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string() && value.get_ref<const std::string&>().size() > kShownCharacters)
    return "a long string";
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

bool IsIntIn(const Json& value, int64_t min, int64_t max) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(INT64_MAX) && static_cast<int64_t>(number) >= min &&
           static_cast<int64_t>(number) <= max;
  }
  return value.is_number_integer() && value.get<int64_t>() >= min && value.get<int64_t>() <= max;
}

FieldReader::FieldReader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

const Json* FieldReader::Find(const char* name) const {
  if (error_.has_value() || !object_.is_object()) return nullptr;
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

void FieldReader::Fail(const std::string& name, const std::string& message, std::string code) {
  const std::string field = path_ + name;
  Fail(ApiError{400, field + ": " + message, field, std::move(code)});
}

void FieldReader::Fail(ApiError error) {
  if (!error_.has_value()) error_ = std::move(error);
}

void FieldReader::Bool(const char* name, bool* value) {
  const Json* json = Find(name);
  if (json == nullptr) return;
  if (!json->is_boolean()) return Fail(name, ValueText(*json) + ", must be true or false");
  *value = json->get<bool>();
}

void FieldReader::Int(const char* name, int64_t min, int64_t max, int64_t* value) {
  const Json* json = Find(name);
  if (json == nullptr) return;
  if (!IsIntIn(*json, min, max)) {
    return Fail(name, ValueText(*json) + ", must be an integer in [" + std::to_string(min) + ", " +
                          std::to_string(max) + "]");
  }
  *value = json->get<int64_t>();
}

void FieldReader::Number(const char* name, double min, double max, double* value) {
  const Json* json = Find(name);
  if (json == nullptr) return;
  const double number = json->is_number() ? json->get<double>() : std::nan("");
  if (!(number >= min && number <= max)) {
    return Fail(
        name, ValueText(*json) + ", must be a number in [" + NumberText(min) + ", " + NumberText(max) + "]");
  }
  *value = number;
}

void FieldReader::Text(const char* name, std::string* value) {
  const Json* json = Find(name);
  if (json == nullptr) return;
  if (!json->is_string()) return Fail(name, ValueText(*json) + ", must be a string");
  *value = json->get<std::string>();
}

}  // namespace holdfast::server
