// ModelConfig from a Hugging Face folder's config.json.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "models/model_config.h"

namespace holdfast {

// model_type llama, mistral (family llama), gemma3_text, gemma3 with a text_config (family gemma3). `label`
// names the file in messages. Errors: as ReadGgufConfig, and kDataLoss for text that is not JSON within the
// limits.
Result<ModelConfig> ParseHfConfig(std::string_view json, const std::string& label);
// folder + "/config.json".
Result<ModelConfig> ReadHfConfig(const std::string& folder);

}  // namespace holdfast
