// Which model a file that was made for it belongs to.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

using Sha256 = std::array<std::byte, 32>;

Sha256 Sha256Of(std::span<const std::byte> bytes);

// SHA-256 over a model's files (a GGUF file; a folder's config.json and *.safetensors in order of their names): of each its
// size and 1024 evenly spread blocks of 4 KiB, or all of it where it is no longer than they are. Another model, another
// quantisation, another fine-tune is told apart within milliseconds; a change of a few bytes may not be, so this guards
// what is exact whatever the model, as centres are, and never stored rows. Errors: kNotFound, kIoError.
Result<Sha256> FingerprintOfModel(const std::string& path);

}  // namespace holdfast
