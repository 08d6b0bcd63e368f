#include "server/sse_reader.h"

namespace holdfast::load {

void SseReader::EndLine(const std::function<void(std::string_view)>& on_data) {
  if (line_.empty()) {
    if (has_data_) on_data(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  std::string_view line = line_;
  if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.starts_with("data")) {
    line.remove_prefix(4);
    const bool is_data = line.empty() || line.front() == ':';
    if (!line.empty()) line.remove_prefix(1);
    if (line.starts_with(" ")) line.remove_prefix(1);
    if (is_data) {
      if (has_data_) data_ += '\n';
      data_ += line;
      has_data_ = true;
    }
  }
  line_.clear();
}

bool SseReader::Feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  for (const char c : bytes) {
    if (failed_) break;
    const bool second_half = after_cr_ && c == '\n';
    after_cr_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      EndLine(on_data);
    } else {
      line_ += c;
      failed_ = line_.size() + data_.size() > kMaxEventBytes;
    }
  }
  return !failed_;
}

}  // namespace holdfast::load
