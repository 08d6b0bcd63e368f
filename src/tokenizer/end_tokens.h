// Which tokens end a generation. GGUF files name one EOS; chat models end a turn with another, known by its
// text only.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace holdfast {

// The ids that end a generation, ascending, by llama.cpp's rules (is_eog): the file's EOS and EOT and every
// piece whose text is in the table. Marks those, and fill-in-the-middle marks, as control tokens in `spec`:
// files often call them user-defined, which would read them from any text and show them to the user.
std::vector<int32_t> FindEndTokens(TokenizerSpec* spec);

}  // namespace holdfast
