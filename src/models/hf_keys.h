// The keys of one object of a config.json: typed, ranged, and remembered, so that those nobody read are
// refused by name.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// A key that is absent and one that is null are the same but for IsNull: both take the fallback. Errors: kInvalidArgument
// (type found and wanted), kOutOfRange (value and limits), kNotFound (a key without fallback).
class JsonKeys {
 public:
  // REQUIRES object.is_object(); it must outlive this. `where` begins every message.
  JsonKeys(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  std::string Where(std::string_view what) const { return where_ + ": " + std::string(what); }

  // The value, null pointer where absent or null. Counts as read.
  const nlohmann::json* Get(std::string_view key);
  bool Has(std::string_view key) { return Get(key) != nullptr; }
  // There, and null: for the keys where that is not the same as absent. Counts as read.
  bool IsNull(std::string_view key);

  Result<int64_t> Count(std::string_view key, int64_t limit);  // 1 to limit
  Result<int64_t> CountOr(std::string_view key, int64_t limit, int64_t fallback);
  Result<double> Number(std::string_view key);
  Result<double> NumberOr(std::string_view key, double fallback);
  Result<bool> BoolOr(std::string_view key, bool fallback);
  Result<std::string> StringOr(std::string_view key, std::string_view fallback);
  // A value that would change the mathematics: kUnimplemented unless it is absent or `neutral`.
  Status RefuseUnless(std::string_view key, const nlohmann::json& neutral);
  // kUnimplemented naming a key that has a value, nobody read, is not in `harmless` and does not begin with
  // '_'.
  Status CheckAllRead(std::span<const std::string_view> harmless) const;

 private:
  Status WrongType(std::string_view key, const nlohmann::json& found, std::string_view wanted) const;

  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace holdfast
