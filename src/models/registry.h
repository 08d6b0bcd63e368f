// What there is to know of a model family, and the families by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "models/blocks/weight_loader.h"
#include "models/gguf_keys.h"
#include "models/hf_keys.h"
#include "models/model.h"
#include "models/model_list.h"

namespace holdfast {

// A tensor's name within "layers.N." of a Hugging Face file, and within "blk.N." (weight_source.h).
struct HfName {
  std::string_view hf;
  std::string_view canonical;
};

// Defined in the family's file. Reading a config, the family adds its own keys to what ReadGgufConfig and
// ReadHfTextModel have read, and refuses by name whatever changes the mathematics.
struct ModelFamily {
  std::string_view name;  // as general.architecture has it, and config.architecture
  Status (*read_gguf)(GgufKeys& keys, ModelConfig& config);
  std::span<const std::string_view> hf_types;  // values of model_type
  Status (*read_hf)(std::string_view type, JsonKeys& keys, ModelConfig& config);
  std::span<const HfName> hf_layer_names;         // besides those that families share
  std::span<const std::string_view> hf_left_out;  // prefixes of tensors that the text model does not read
  ChatFormat chat_format;                         // of files without a chat template
  // Builds the model and takes every tensor of the file; errors name tensors and shapes. The pool must
  // outlive the model.
  Result<std::unique_ptr<Model>> (*load)(ModelConfig config, WeightLoader& loader, ThreadPool& pool);
};

std::span<const ModelFamily* const> AllModelFamilies();
// Null where there is none of that name.
const ModelFamily* FindModelFamily(std::string_view name);
std::string ModelFamilyNames();  // "llama, gemma3", for messages

#define HOLDFAST_DECLARE_MODEL(family) extern const ModelFamily family;
HOLDFAST_MODELS(HOLDFAST_DECLARE_MODEL)
#undef HOLDFAST_DECLARE_MODEL

}  // namespace holdfast
