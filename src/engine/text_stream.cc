#include "engine/text_stream.h"

#include <algorithm>

namespace holdfast {

TextStream::TextStream(std::vector<std::string> stop) : stop_(std::move(stop)) {
  std::erase_if(stop_, [](const std::string& s) { return s.empty(); });
}

std::string TextStream::Add(std::string_view piece) {
  if (stopped_) return {};
  held_ += decoder_.Add(piece);
  return Release();
}

std::string TextStream::Finish() {
  if (stopped_) return {};
  held_ += decoder_.Finish();
  std::string text = Release();
  text += held_;
  held_.clear();
  return text;
}

std::string TextStream::Release() {
  size_t first = std::string::npos;
  for (const std::string& s : stop_) first = std::min(first, held_.find(s));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string text = held_.substr(0, first);
    held_.clear();
    return text;
  }
  // Hold back the longest end of the text that begins a stop string.
  size_t keep = 0;
  for (const std::string& s : stop_) {
    for (size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(s).substr(0, n)) keep = n;
    }
  }
  // A stop string may begin inside a character's bytes only if it does so itself: give out whole characters.
  while (keep < held_.size() && keep > 0 &&
         (static_cast<unsigned char>(held_[held_.size() - keep]) & 0xc0u) == 0x80u)
    ++keep;
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return text;
}

}  // namespace holdfast
