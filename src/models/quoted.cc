#include "models/quoted.h"

namespace holdfast {

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += text.size() > kMaxBytes ? "...\"" : "\"";
  return out;
}

}  // namespace holdfast
