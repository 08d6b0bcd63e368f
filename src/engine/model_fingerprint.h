// Which model something that was made for it belongs to.
#pragma once

#include <string>

#include "base/sha256.h"
#include "holdfast/status.h"

namespace holdfast {

// SHA-256 over a model's files (a GGUF file; a folder's config.json and *.safetensors in order of their names): of each its
// size and 1024 evenly spread blocks of 4 KiB, or all of it where it is no longer than they are. Another model, another
// quantisation, another fine-tune is told apart within milliseconds; a change of a few bytes may not be, so this guards
// what is exact whatever the model, as centres are, and never stored rows. Errors: kNotFound, kIoError.
Result<Sha256> FingerprintOfModel(const std::string& path);

// The exact identity, for stored rows: SHA-256 over every byte of every file (a GGUF file; a folder's config.json,
// *.safetensors and their index, and the tokenizer's files, each with its name). Reads all of it, 1.4 GB/s a core where
// the processor has SHA instructions: keep it. Errors: kNotFound, kIoError.
Result<Sha256> DigestOfModel(const std::string& path);

// Of one regular file's bytes. Errors: kNotFound, kIoError.
Result<Sha256> Sha256OfFile(const std::string& path);

}  // namespace holdfast
