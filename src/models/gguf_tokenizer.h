// The tokenizer that a GGUF file carries in its metadata, as plain data.
#pragma once

#include <string>

#include "models/gguf.h"
#include "tokenizer/tokenizer.h"

namespace holdfast {

// Errors: kNotFound (the file has no tokenizer), kUnimplemented (tokenizer.ggml.model other than gpt2 and
// llama, or a normalisation that is not implemented, by name), kInvalidArgument, kOutOfRange, kDataLoss (a
// token id outside the vocabulary, arrays of different lengths, each with the values).
Result<TokenizerSpec> ReadTokenizerSpec(const GgufFile& file);

// tokenizer.chat_template, "" where absent.
Result<std::string> ReadChatTemplate(const GgufFile& file);

}  // namespace holdfast
