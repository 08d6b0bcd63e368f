// What a session and a served request check before any work.
#pragma once

#include <cstdint>
#include <span>

#include "holdfast/engine.h"

namespace holdfast {

// Errors: kInvalidArgument (no tokens, a bad option, named with its limit), kOutOfRange (a token outside the vocabulary;
// more tokens than max_context). prefill_chunk_tokens is its session's own to check.
Status ValidateGenerate(std::span<const int32_t> tokens, const GenerateOptions& options, int64_t vocab_size,
                        int64_t max_context);

}  // namespace holdfast
