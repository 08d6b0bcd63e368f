// Reading bytes that may or may not be UTF-8, the two ways tokenizers do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

// Bytes of a character by its first byte alone, continuation bytes unread (1 for a stray one), never past the
// end. REQUIRES: offset < text.size().
size_t CharacterBytes(std::string_view text, size_t offset);

// The code point at offset, read strictly (no overlong forms, no surrogates, none above U+10FFFF); *size is
// its bytes. -1 where the bytes are none: *size is then those of the longest beginning of a character (at
// least 1), which is what one U+FFFD stands for (Unicode 15, section 3.9, "maximal subpart"). *incomplete:
// the text ends inside a character.
int32_t ReadCharacter(std::string_view text, size_t offset, size_t* size, bool* incomplete);

bool IsUtf8(std::string_view text);
void AppendUtf8(int32_t code_point, std::string* out);

// The text as llama.cpp's byte-level tokenizer sees it: each byte that begins no well-formed sequence becomes
// U+FFFD, overlong forms become their code point, surrogates stay as they are. Identity on UTF-8.
std::string RepairUtf8(std::string_view text);

}  // namespace holdfast
