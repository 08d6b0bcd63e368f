// Server-sent events out of bytes that arrive cut anywhere: https://html.spec.whatwg.org/multipage/server-sent-events.html
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace holdfast::load {

class SseReader {
 public:
  // More than any token needs; an event past it is malformed.
  static constexpr size_t kMaxEventBytes = size_t{4} << 20;

  // Calls on_data with each event's data, lines joined by a newline; comments, names and ids are skipped. False once an
  // event was too long: the stream is not worth reading on.
  bool Feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_data);

 private:
  void EndLine(const std::function<void(std::string_view)>& on_data);

  std::string line_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // a line feed right after a carriage return belongs to it
  bool failed_ = false;
};

}  // namespace holdfast::load
