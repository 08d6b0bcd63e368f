// ModelConfig from GGUF metadata. Which key means what: docs/formats/gguf.md.
#pragma once

#include "models/gguf.h"
#include "models/model_config.h"

namespace holdfast {

// Errors: kUnimplemented (an architecture, or a key that changes the mathematics and is not implemented, by
// name), kNotFound (a key that is needed), kInvalidArgument and kOutOfRange (values, with the limit).
Result<ModelConfig> ReadGgufConfig(const GgufFile& file);

}  // namespace holdfast
