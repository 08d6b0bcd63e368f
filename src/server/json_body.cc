#include "server/json_body.h"

#include <string>
#include <utility>
#include <vector>

namespace holdfast::server {
namespace {

constexpr size_t kShownBytes = 200;

// Builds the document while it counts. Returning false from a handler ends the parse.
class BoundedBuilder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(int64_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(uint64_t value) override { return Add(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return Add(value) != nullptr; }
  bool string(std::string& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(Json::binary_t&) override { return Fail("binary values are no JSON"); }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
    const std::string_view what = e.what();
    const size_t end = what.find("] ");
    std::string why(end == std::string_view::npos ? what : what.substr(end + 2));
    if (why.size() > kShownBytes) why = why.substr(0, kShownBytes) + "...";  // it has what was read in it
    return Fail("byte " + std::to_string(position) + ": " + why);
  }

  Json Take() { return std::move(root_); }
  const std::string& why() const { return why_; }

 private:
  bool Fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }
  Json* Add(Json value) {
    if (++values_ > kMaxJsonValues) {
      Fail("more than " + std::to_string(kMaxJsonValues) + " values");
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool Open(Json container) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth))
      return Fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    Json* added = Add(std::move(container));
    if (added != nullptr) open_.push_back(added);
    return added != nullptr;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // a parent is not touched while its child is open, so pointers stay valid
  std::string key_, why_;
  int64_t values_ = 0;
};

}  // namespace

Result<Json> ParseJsonBody(std::string_view text) {
  // The library takes one between values for the text's end, whatever follows it.
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    return InvalidArgument("request body: not valid JSON: byte " + std::to_string(at + 1) + ": a NUL");
  }
  BoundedBuilder builder;
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed || !builder.why().empty())
    return InvalidArgument("request body: not valid JSON: " + builder.why());
  return builder.Take();
}

std::string ToText(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace holdfast::server
