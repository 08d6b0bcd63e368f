#include "models/hf_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "models/json_reader.h"
#include "models/quoted.h"

namespace holdfast {

using nlohmann::json;

namespace {

// A short rendering for messages; whatever the value holds, one printable line.
std::string Shown(const json& value) {
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  if (value.is_object() || value.is_array()) return fmt::format("of type {}", value.type_name());
  return value.dump();
}

}  // namespace

Status JsonKeys::WrongType(std::string_view key, const json& found, std::string_view wanted) const {
  return InvalidArgument(
      Where(fmt::format("key {} is of type {}, wanted {}", Quoted(key), JsonTypeName(found), wanted)));
}

const json* JsonKeys::Get(std::string_view key) {
  read_.emplace(key);
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonKeys::IsNull(std::string_view key) {
  return Get(key) == nullptr && object_.contains(std::string(key));
}

Result<int64_t> JsonKeys::Count(std::string_view key, int64_t limit) {
  const json* value = Get(key);
  if (value == nullptr) return NotFound(Where(fmt::format("key {} is missing", Quoted(key))));
  if (!value->is_number_integer()) return WrongType(key, *value, "an integer");
  const bool fits =
      value->is_number_unsigned()
          ? value->get<uint64_t>() >= 1 && value->get<uint64_t>() <= static_cast<uint64_t>(limit)
          : value->get<int64_t>() >= 1 && value->get<int64_t>() <= limit;
  if (!fits) {
    return OutOfRange(
        Where(fmt::format("key {} is {}, the limits are 1 and {}", Quoted(key), Shown(*value), limit)));
  }
  return value->get<int64_t>();
}

Result<int64_t> JsonKeys::CountOr(std::string_view key, int64_t limit, int64_t fallback) {
  return Has(key) ? Count(key, limit) : Result<int64_t>(fallback);
}

Result<double> JsonKeys::Number(std::string_view key) {
  const json* value = Get(key);
  if (value == nullptr) return NotFound(Where(fmt::format("key {} is missing", Quoted(key))));
  if (!value->is_number()) return WrongType(key, *value, "a number");
  return value->get<double>();
}

Result<double> JsonKeys::NumberOr(std::string_view key, double fallback) {
  return Has(key) ? Number(key) : Result<double>(fallback);
}

Result<bool> JsonKeys::BoolOr(std::string_view key, bool fallback) {
  const json* value = Get(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return WrongType(key, *value, "boolean");
  return value->get<bool>();
}

Result<std::string> JsonKeys::StringOr(std::string_view key, std::string_view fallback) {
  const json* value = Get(key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) return WrongType(key, *value, "string");
  return value->get<std::string>();
}

Status JsonKeys::RefuseUnless(std::string_view key, const json& neutral) {
  const json* value = Get(key);
  if (value == nullptr || *value == neutral) return OkStatus();
  return Unimplemented(
      Where(fmt::format("key {} is {}, supported is {}", Quoted(key), Shown(*value), Shown(neutral))));
}

Status JsonKeys::CheckAllRead(std::span<const std::string_view> harmless) const {
  for (const auto& [key, value] : object_.items()) {
    if (value.is_null() || read_.contains(key) || key.starts_with('_')) continue;
    if (std::find(harmless.begin(), harmless.end(), key) != harmless.end()) continue;
    return Unimplemented(
        Where(fmt::format("key {} with the value {} is not known here", Quoted(key), Shown(value))));
  }
  return OkStatus();
}

}  // namespace holdfast
