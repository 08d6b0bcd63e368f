// Hugging Face tensor names as canonical ones, and a model folder's tensors under them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "models/quoted.h"
#include "models/registry.h"
#include "models/weight_source.h"

namespace holdfast {
namespace {

// Names outside the layers, after the model's prefix is gone.
constexpr HfName kTop[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
};

// Names within "layers.N." that families share; a family's own are in its file.
constexpr HfName kLayer[] = {
    {"self_attn.q_proj.weight", "attn_q.weight"},      {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.weight", "attn_k.weight"},      {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.weight", "attn_v.weight"},      {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.weight", "attn_output.weight"}, {"self_attn.o_proj.bias", "attn_output.bias"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},       {"mlp.gate_proj.bias", "ffn_gate.bias"},
    {"mlp.up_proj.weight", "ffn_up.weight"},           {"mlp.up_proj.bias", "ffn_up.bias"},
    {"mlp.down_proj.weight", "ffn_down.weight"},       {"mlp.down_proj.bias", "ffn_down.bias"},
    {"input_layernorm.weight", "attn_norm.weight"},
};

// The longest prefixes first: multimodal gemma3 has the language model inside, at two places over the years.
constexpr std::string_view kModelPrefixes[] = {"language_model.model.", "model.language_model.", "model."};

std::string_view Lookup(std::span<const HfName> table, std::string_view name) {
  for (const HfName& pair : table) {
    if (pair.hf == name) return pair.canonical;
  }
  return {};
}

// A decimal layer number as Hugging Face writes it: at most four digits, no leading zero.
bool IsLayerNumber(std::string_view digits) {
  if (digits.empty() || digits.size() > 4 || (digits.size() > 1 && digits[0] == '0')) return false;
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Left out without loss: what the family says, and rotary tables that old checkpoints store although they are
// computed.
bool IsLeftOut(const ModelFamily& family, std::string_view name) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  return std::any_of(family.hf_left_out.begin(), family.hf_left_out.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string LayerName(const ModelFamily& family, std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || !IsLayerNumber(name.substr(0, dot))) return "";
  const std::string_view rest = name.substr(dot + 1);
  std::string_view canonical = Lookup(kLayer, rest);
  if (canonical.empty()) canonical = Lookup(family.hf_layer_names, rest);
  return canonical.empty() ? "" : fmt::format("blk.{}.{}", name.substr(0, dot), canonical);
}

// A tied model's own output matrix is the embeddings; a file that stores it all the same must repeat them.
Status DropTiedOutput(const std::string& folder, std::vector<WeightSource::Entry>& entries) {
  const auto find = [&](std::string_view name) {
    return std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; });
  };
  const auto output = find("output.weight");
  const auto embeddings = find("token_embd.weight");
  if (output == entries.end() || embeddings == entries.end()) return OkStatus();
  const auto a = output->weight.bytes;
  const auto b = embeddings->weight.bytes;
  if (output->weight.type != embeddings->weight.type || a.size() != b.size() ||
      std::memcmp(a.data(), b.data(), a.size()) != 0) {
    return InvalidArgument(fmt::format(
        "load weights {}: tensor {} differs from the embeddings although tie_word_embeddings is true",
        Quoted(folder), Quoted(output->file_name)));
  }
  output->forget();
  entries.erase(output);
  return OkStatus();
}

}  // namespace

std::string CanonicalName(const ModelFamily& family, std::string_view hf_name) {
  if (hf_name == "lm_head.weight" || hf_name == "language_model.lm_head.weight") return "output.weight";
  for (const std::string_view prefix : kModelPrefixes) {
    if (!hf_name.starts_with(prefix)) continue;
    const std::string_view rest = hf_name.substr(prefix.size());
    if (rest.starts_with("layers.")) return LayerName(family, rest.substr(7));
    return std::string(Lookup(kTop, rest));
  }
  return "";
}

Result<std::unique_ptr<WeightSource>> MakeWeightSource(std::shared_ptr<const SafetensorsModel> model,
                                                       std::string folder, const ModelFamily& family,
                                                       bool tied_embeddings) {
  std::vector<WeightSource::Entry> entries;
  for (const SafetensorsModel::Entry& found : model->tensors()) {
    const SafetensorsTensor& tensor = *found.tensor;
    if (IsLeftOut(family, tensor.name)) continue;
    WeightSource::Entry& entry = entries.emplace_back();
    entry.file_name = tensor.name;
    if (tensor.shape.size() <= 2) entry.name = CanonicalName(family, tensor.name);
    entry.weight = {
        {}, tensor.type, tensor.shape.size() == 2 ? tensor.shape[0] : 1, tensor.shape.back(), tensor.bytes};
    entry.forget = [file = found.file, &tensor] { file->Forget(tensor); };
  }
  if (tied_embeddings) HF_RETURN_IF_ERROR(DropTiedOutput(folder, entries));
  return WeightSource::Create(std::move(model), std::move(folder), std::move(entries));
}

}  // namespace holdfast
