#include "models/json_reader.h"

#include <fmt/format.h>

#include <vector>

#include "models/quoted.h"

namespace holdfast {
namespace {

using nlohmann::json;

// Builds the value while it counts. Returning false stops the parser, which then throws nothing.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(const JsonLimits& limits, std::string what) : limits_(limits), what_(std::move(what)) {}

  bool null() override { return Add(json(nullptr)); }
  bool boolean(bool v) override { return Add(json(v)); }
  bool number_integer(number_integer_t v) override { return Add(json(v)); }
  bool number_unsigned(number_unsigned_t v) override { return Add(json(v)); }
  bool number_float(number_float_t v, const string_t&) override { return Add(json(v)); }
  bool string(string_t& v) override { return Add(json(std::move(v))); }
  bool binary(binary_t&) override { return Fail(DataLoss(what_ + ": binary values are not JSON")); }

  bool start_object(std::size_t) override { return Open(json::object()); }
  bool start_array(std::size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!Count()) return false;
    if (open_.back()->contains(name)) {
      return Fail(DataLoss(
          fmt::format("{}: key {} appears twice in one object, once is allowed", what_, Quoted(name))));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(DataLoss(fmt::format("{}: not valid JSON at byte {}", what_, position)));
  }

  Status status() const { return status_; }
  json&& TakeRoot() { return std::move(root_); }

 private:
  bool Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
    return false;
  }

  bool Count() {
    if (++values_ <= limits_.max_values) return true;
    return Fail(OutOfRange(
        fmt::format("{}: value count is {}, the limit is {}", what_, values_, limits_.max_values)));
  }

  json* Place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool Add(json value) {
    if (!Count()) return false;
    Place(std::move(value));
    return true;
  }

  bool Open(json value) {
    if (!Count()) return false;
    if (open_.size() >= static_cast<size_t>(limits_.max_depth)) {
      return Fail(OutOfRange(fmt::format("{}: nesting depth is {}, the limit is {}", what_, open_.size() + 1,
                                         limits_.max_depth)));
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  std::string what_;
  json root_;
  std::vector<json*> open_;  // a parent does not move while a child is open
  std::string key_;
  int64_t values_ = 0;
  Status status_;
};

}  // namespace

Result<json> ParseJson(std::string_view text, const JsonLimits& limits, const std::string& what) {
  if (text.size() > static_cast<size_t>(limits.max_bytes)) {
    return OutOfRange(
        fmt::format("{}: size is {} bytes, the limit is {}", what, text.size(), limits.max_bytes));
  }
  Builder builder(limits, what);
  if (!json::sax_parse(text, &builder)) {
    Status status = builder.status();
    return status.ok() ? DataLoss(what + ": not valid JSON") : status;
  }
  return builder.TakeRoot();
}

std::string JsonTypeName(const json& value) {
  return value.is_number_integer() ? "integer" : value.type_name();
}

}  // namespace holdfast
