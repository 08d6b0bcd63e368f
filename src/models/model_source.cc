#include "models/model_source.h"

#include <filesystem>

#include "base/status_macros.h"
#include "models/gguf_config.h"
#include "models/gguf_tokenizer.h"
#include "models/hf_config.h"
#include "models/quoted.h"
#include "models/registry.h"

namespace holdfast {
namespace {

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Result<ModelSource> OpenGguf(const std::string& path) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> opened, GgufFile::Open(path));
  const std::shared_ptr<const GgufFile> file = std::move(opened);
  ModelSource source;
  HF_ASSIGN_OR_RETURN(source.config, ReadGgufConfig(*file));
  HF_ASSIGN_OR_RETURN(source.chat_template, ReadChatTemplate(*file));
  Result<TokenizerSpec> spec = ReadTokenizerSpec(*file);
  if (spec.ok()) {
    source.tokenizer = std::move(spec).value();
  } else if (spec.status().code() == StatusCode::kUnimplemented ||
             spec.status().code() == StatusCode::kNotFound) {
    source.tokenizer_missing = spec.status().message();
  } else {
    return spec.status();
  }
  HF_ASSIGN_OR_RETURN(source.weights, MakeWeightSource(file));
  return source;
}

Result<ModelSource> OpenFolder(const std::string& path) {
  ModelSource source;
  HF_ASSIGN_OR_RETURN(source.config, ReadHfConfig(path));
  HF_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsModel> opened, SafetensorsModel::Open(path));
  HF_ASSIGN_OR_RETURN(
      source.weights,
      MakeWeightSource(std::shared_ptr<const SafetensorsModel>(std::move(opened)), path,
                       *FindModelFamily(source.config.architecture), source.config.tied_embeddings));
  source.tokenizer_missing =
      "read tokenizer of " + Quoted(path) +
      ": tokenizer.json of a Hugging Face folder is not supported, a GGUF file's tokenizer is";
  return source;
}

}  // namespace

Result<ModelSource> OpenModelSource(const std::string& path) {
  return IsFolder(path) ? OpenFolder(path) : OpenGguf(path);
}

Result<ModelConfig> OpenModelConfig(const std::string& path) {
  if (IsFolder(path)) return ReadHfConfig(path);
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  return ReadGgufConfig(*file);
}

}  // namespace holdfast
