#include "tokenizer/utf8.h"

#include <algorithm>

namespace holdfast {
namespace {

constexpr int32_t kReplacement = 0xfffd;

uint32_t Byte(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool IsContinuation(uint32_t byte) {
  return (byte & 0xc0u) == 0x80u;
}

// The lowest and highest second byte that a strict reader allows after `first` (Unicode 15, table 3-7).
struct SecondByte {
  uint32_t low = 0x80, high = 0xbf;
};
SecondByte AllowedSecond(uint32_t first) {
  switch (first) {
    case 0xe0:
      return {0xa0, 0xbf};
    case 0xed:
      return {0x80, 0x9f};
    case 0xf0:
      return {0x90, 0xbf};
    case 0xf4:
      return {0x80, 0x8f};
    default:
      return {};
  }
}

// As lenient as llama.cpp's reader: the right number of continuation bytes is all it asks. -1 if they are not
// there.
int32_t ReadLenient(std::string_view text, size_t offset, size_t* size) {
  const uint32_t first = Byte(text, offset);
  *size = 1;
  if (first < 0x80) return static_cast<int32_t>(first);
  if (first < 0xc0 || first >= 0xf8) return -1;
  const size_t want = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() - offset < want) return -1;
  uint32_t code_point = first & (0xffu >> (want + 1));
  for (size_t i = 1; i < want; ++i) {
    const uint32_t next = Byte(text, offset + i);
    if (!IsContinuation(next)) return -1;
    code_point = (code_point << 6) | (next & 0x3fu);
  }
  if (code_point > 0x10ffff) return -1;
  *size = want;
  return static_cast<int32_t>(code_point);
}

}  // namespace

size_t CharacterBytes(std::string_view text, size_t offset) {
  const uint32_t first = Byte(text, offset);
  const size_t want = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return std::min(want, text.size() - offset);
}

int32_t ReadCharacter(std::string_view text, size_t offset, size_t* size, bool* incomplete) {
  const uint32_t first = Byte(text, offset);
  *size = 1;
  *incomplete = false;
  if (first < 0x80) return static_cast<int32_t>(first);
  if (first < 0xc2 || first > 0xf4) return -1;
  const size_t want = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  uint32_t code_point = first & (0xffu >> (want + 1));
  SecondByte allowed = AllowedSecond(first);
  for (size_t i = 1; i < want; ++i) {
    if (offset + i == text.size()) {
      *incomplete = true;
      return -1;
    }
    const uint32_t next = Byte(text, offset + i);
    if (next < allowed.low || next > allowed.high) return -1;
    code_point = (code_point << 6) | (next & 0x3fu);
    *size = i + 1;
    allowed = {};
  }
  return static_cast<int32_t>(code_point);
}

bool IsUtf8(std::string_view text) {
  size_t size = 0;
  bool incomplete = false;
  for (size_t i = 0; i < text.size(); i += size) {
    if (ReadCharacter(text, i, &size, &incomplete) < 0) return false;
  }
  return true;
}

void AppendUtf8(int32_t code_point, std::string* out) {
  const auto c = static_cast<uint32_t>(code_point);
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string RepairUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t size = 0;
  for (size_t i = 0; i < text.size(); i += size) {
    const int32_t code_point = ReadLenient(text, i, &size);
    AppendUtf8(code_point < 0 ? kReplacement : code_point, &out);
  }
  return out;
}

}  // namespace holdfast
