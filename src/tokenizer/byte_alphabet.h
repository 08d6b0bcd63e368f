// GPT-2's byte alphabet: every byte as a printable character, so that a vocabulary is text.
// Source: encoder.py of the GPT-2 release (bytes_to_unicode).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

// The character of each byte, as UTF-8.
const std::array<std::string, 256>& ByteAlphabet();

// The byte that a character stands for; -1 for a character outside the alphabet.
int ByteOfCharacter(int32_t code_point);

}  // namespace holdfast
