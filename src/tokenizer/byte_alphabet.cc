#include "tokenizer/byte_alphabet.h"

#include <vector>

#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

struct Tables {
  std::array<std::string, 256> characters;
  std::vector<int> bytes;  // [code point]

  Tables() : bytes(256 + 256, -1) {
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const int code_point = IsPrintable(byte) ? byte : next++;
      AppendUtf8(code_point, &characters[static_cast<size_t>(byte)]);
      bytes[static_cast<size_t>(code_point)] = byte;
    }
  }
};

const Tables& AllTables() {
  static const Tables tables;
  return tables;
}

}  // namespace

const std::array<std::string, 256>& ByteAlphabet() {
  return AllTables().characters;
}

int ByteOfCharacter(int32_t code_point) {
  const auto& bytes = AllTables().bytes;
  if (code_point < 0 || static_cast<size_t>(code_point) >= bytes.size()) return -1;
  return bytes[static_cast<size_t>(code_point)];
}

}  // namespace holdfast
