#include "models/hf_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "models/hf_keys.h"
#include "models/json_reader.h"
#include "models/quoted.h"
#include "models/registry.h"

namespace holdfast {
namespace {

// The family whose configs have this model_type; null where none has. `types` becomes the list of all.
const ModelFamily* FamilyOfType(std::string_view type, std::string& types) {
  const ModelFamily* found = nullptr;
  for (const ModelFamily* family : AllModelFamilies()) {
    for (const std::string_view known : family->hf_types) {
      if (known == type) found = family;
      types += (types.empty() ? "" : ", ") + std::string(known);
    }
  }
  return found;
}

}  // namespace

Result<ModelConfig> ParseHfConfig(std::string_view text, const std::string& label) {
  const std::string where = fmt::format("read model config {}", Quoted(label));
  const JsonLimits limits{.max_bytes = 4 << 20, .max_depth = 16, .max_values = 1 << 16};
  HF_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, limits, where));
  if (!root.is_object())
    return DataLoss(fmt::format("{}: is of type {}, wanted object", where, JsonTypeName(root)));
  JsonKeys keys(root, where);
  HF_ASSIGN_OR_RETURN(const std::string type, keys.StringOr("model_type", ""));
  std::string types;
  const ModelFamily* family = FamilyOfType(type, types);
  if (family == nullptr) {
    return Unimplemented(
        fmt::format("{}: key \"model_type\" is {}, supported are {}", where, Quoted(type), types));
  }
  ModelConfig config;
  config.architecture = family->name;
  HF_RETURN_IF_ERROR(family->read_hf(type, keys, config));
  HF_RETURN_IF_ERROR(ValidateModelConfig(config, label));
  return config;
}

Result<ModelConfig> ReadHfConfig(const std::string& folder) {
  const std::string path = folder + "/config.json";
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file->bytes();
  return ParseHfConfig({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace holdfast
