// Choices on disk: JSON that a person can read, checked as if anybody had written it.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "engine/auto_limits.h"
#include "engine/model_fingerprint.h"
#include "holdfast/auto_scheme.h"
#include "holdfast/model_store.h"
#include "holdfast/output_file.h"
#include "models/json_reader.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "holdfast kv auto";
constexpr int64_t kVersion = 1;
constexpr size_t kMostSchemes = 64;  // a file; the oldest goes
constexpr JsonLimits kLimits = {.max_bytes = 1 << 20, .max_depth = 4, .max_values = 1 << 14};

Result<std::string> ModelDigest(const Engine& engine) {
  HF_ASSIGN_OR_RETURN(const Sha256 digest, FingerprintOfModel(engine.info().path));
  return HexOf(digest);
}

template <typename T>
std::string DigestOf(std::span<const T> values) {
  return HexOf(Sha256Of(std::as_bytes(values))).substr(0, 16);
}

// The centres that an integer codec would get, "none" without.
Result<std::string> CenterDigest(const Engine& engine, CacheOptions base) {
  base.k_codec = base.v_codec = CodecId::kInt8;
  HF_ASSIGN_OR_RETURN(const CacheConfig config, engine.MakeCacheConfig(base));
  std::vector<float> all;
  for (const LayerConfig& layer : config.layers) {
    for (const auto& center : {layer.k_transform.center, layer.v_transform.center}) {
      if (center != nullptr) all.insert(all.end(), center->begin(), center->end());
    }
  }
  return all.empty() ? "none" : DigestOf(std::span<const float>(all));
}

Result<std::string> ReadText(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  if (static_cast<int64_t>(file->bytes().size()) > kLimits.max_bytes) {
    return DataLoss(path + ": " + std::to_string(file->bytes().size()) + " bytes, the limit is " +
                    std::to_string(kLimits.max_bytes));
  }
  return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
}

// Fields of one object by name and type. Errors kDataLoss: `PATH: field ...`.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  Result<std::string> Text(const char* name) const {
    HF_ASSIGN_OR_RETURN(const json* value, Find(name));
    if (!value->is_string()) return Wrong(name, *value, "a string");
    return value->get<std::string>();
  }
  Result<int64_t> Count(const char* name, int64_t most) const {
    HF_ASSIGN_OR_RETURN(const json* value, Find(name));
    const bool fits = value->is_number_unsigned() && value->get<uint64_t>() <= static_cast<uint64_t>(most);
    if (!fits) return Wrong(name, *value, "a whole number in [0, " + std::to_string(most) + "]");
    return value->get<int64_t>();
  }
  Result<double> Number(const char* name) const {
    HF_ASSIGN_OR_RETURN(const json* value, Find(name));
    if (!value->is_number() || !(value->get<double>() >= 0.0) || !std::isfinite(value->get<double>())) {
      return Wrong(name, *value, "a finite number >= 0");
    }
    return value->get<double>();
  }
  Result<const json*> Array(const char* name) const {
    HF_ASSIGN_OR_RETURN(const json* value, Find(name));
    if (!value->is_array()) return Wrong(name, *value, "an array");
    return value;
  }
  Status Wrong(const char* name, const json& value, const std::string& wanted) const {
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 60);
    return DataLoss(where_ + ": " + name + " is " + text + ", must be " + wanted);
  }

 private:
  Result<const json*> Find(const char* name) const {
    if (!object_.is_object()) return DataLoss(where_ + ": " + JsonTypeName(object_) + ", must be an object");
    const auto found = object_.find(name);
    if (found == object_.end()) return DataLoss(where_ + ": " + name + " is missing");
    return &*found;
  }
  const json& object_;
  std::string where_;
};

// The whole file, its head checked. Error kNotFound where it is of another model.
Result<json> ReadFileOf(const std::string& digest, const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  auto parsed = ParseJson(text, kLimits, path);
  if (!parsed.ok()) return DataLoss(parsed.status().message());
  const Fields head(*parsed, path);
  HF_ASSIGN_OR_RETURN(const std::string format, head.Text("format"));
  if (format != kFormat) return DataLoss(path + ": not a file of cache choices");
  HF_ASSIGN_OR_RETURN(const int64_t version, head.Count("version", INT32_MAX));
  if (version != kVersion) {
    return Unimplemented(path + ": version " + std::to_string(version) + ", this program reads " +
                         std::to_string(kVersion));
  }
  HF_ASSIGN_OR_RETURN(const std::string model, head.Text("model"));
  HF_RETURN_IF_ERROR(head.Array("schemes").status());
  if (model != digest) return NotFound(path + ": made for another model (its fingerprint differs)");
  return std::move(parsed).value();
}

Result<bool> HasKey(const json& entry, const AutoKey& key, const std::string& where) {
  const Fields fields(entry, where);
  HF_ASSIGN_OR_RETURN(const double kld, fields.Number("kld"));
  HF_ASSIGN_OR_RETURN(const std::string conditions, fields.Text("conditions"));
  return kld == key.kld && conditions == key.conditions;
}

Result<AutoScheme> SchemeOf(const json& entry, const std::string& where) {
  const Fields fields(entry, where);
  AutoScheme scheme;
  HF_ASSIGN_OR_RETURN(const std::string layers, fields.Text("layers"));
  auto parsed = ParseLayerSchemes(layers);
  if (!parsed.ok()) return DataLoss(where + ": layers: " + parsed.status().message());
  scheme.layers = std::move(parsed).value();
  HF_ASSIGN_OR_RETURN(scheme.protection.sink_tokens, fields.Count("protect_sinks", kMaxContextTokens));
  HF_ASSIGN_OR_RETURN(scheme.protection.recent_tokens, fields.Count("protect_recent", kMaxContextTokens));
  HF_ASSIGN_OR_RETURN(const std::string codecs, fields.Text("protect_codecs"));
  auto protection = ParseKvSpec(codecs);
  if (!protection.ok()) return DataLoss(where + ": protect_codecs: " + protection.status().message());
  scheme.protection.codecs = *protection;
  HF_ASSIGN_OR_RETURN(scheme.kld_calibration, fields.Number("kld_calibration"));
  HF_ASSIGN_OR_RETURN(scheme.kld_held_out, fields.Number("kld_held_out"));
  HF_ASSIGN_OR_RETURN(scheme.bytes_per_token, fields.Count("bytes_per_token", INT64_MAX));
  return scheme;
}

// That it is what it says, of this model.
Status CheckScheme(const Engine& engine, const AutoKey& key, const CacheOptions& base,
                   const AutoScheme& scheme, const std::string& where) {
  if (scheme.kld_held_out > key.kld) {
    return DataLoss(where + ": kld_held_out is " + std::to_string(scheme.kld_held_out) +
                    ", must be at most kld, " + std::to_string(key.kld));
  }
  auto config = engine.MakeCacheConfig(WithScheme(base, scheme));
  if (!config.ok()) return DataLoss(where + ": layers: " + config.status().message());
  int64_t bytes = 0;
  for (const LayerConfig& layer : config->layers) {
    HF_ASSIGN_OR_RETURN(const int64_t row, RowBytes(layer));
    bytes += row;
  }
  if (bytes == scheme.bytes_per_token) return OkStatus();
  return DataLoss(where + ": bytes_per_token is " + std::to_string(scheme.bytes_per_token) +
                  ", its layers take " + std::to_string(bytes));
}

std::string Entry(const std::string& path, size_t i) {
  return path + ": scheme " + std::to_string(i);
}

json EntryOf(const AutoKey& key, const AutoScheme& scheme) {
  return {{"kld", key.kld},
          {"conditions", key.conditions},
          {"layers", LayerSchemesName(scheme.layers)},
          {"protect_sinks", scheme.protection.sink_tokens},
          {"protect_recent", scheme.protection.recent_tokens},
          {"protect_codecs", KvSpecName(scheme.protection.codecs)},
          {"kld_calibration", scheme.kld_calibration},
          {"kld_held_out", scheme.kld_held_out},
          {"bytes_per_token", scheme.bytes_per_token}};
}

Status WriteWhole(const std::string& text, const std::string& path) {
  OutputFile file(path);
  HF_RETURN_IF_ERROR(file.Check());
  file.stream() << text;
  return file.Finish();
}

// Nine digits: another threshold is another choice.
std::string SparseCondition(const CacheOptions& base) {
  if (base.sparse_v <= 0.0f && base.sparse_pages == 0) return " sparse_v=0.000000";
  char text[96];
  std::snprintf(text, sizeof text, " sparse_v=%.9g sparse_pages=%lld reference=dense",
                static_cast<double>(base.sparse_v), static_cast<long long>(base.sparse_pages));
  return text;
}

}  // namespace

Result<AutoKey> MakeAutoKey(const Engine& engine, std::span<const int32_t> calibration_tokens,
                            const CacheOptions& base, const AutoOptions& options) {
  HF_ASSIGN_OR_RETURN(const AutoLimits limits, AutoLimitsOf(engine, base, options));
  HF_ASSIGN_OR_RETURN(const std::string center, CenterDigest(engine, base));
  const auto used =
      std::min(calibration_tokens.size(), static_cast<size_t>(limits.TextTokens()));  // what is read of it
  const std::string text = used == 0 ? "sampled" : DigestOf(calibration_tokens.first(used));
  const ProtectionConfig& protection = base.protection;
  std::string c = "text=" + text + " ranking=" + std::to_string(limits.ranking_chunks) + "x" +
                  std::to_string(limits.ranking_tokens) +
                  " held_out=" + std::to_string(limits.held_out_chunks) + "x" +
                  std::to_string(limits.context_tokens);
  // Exact products and the model's own ones differ in the size of their weights.
  c += " weights=" + std::to_string(engine.info().weight_bytes);
  c += " rotate=" + std::string(KvRotateName(base.rotate)) + " center=" + center;
  c += " window=" + std::to_string(base.window_tokens) + "+" + std::to_string(base.sink_tokens);
  c += " protect=" + std::to_string(base.protect_layers) + "," + std::to_string(protection.sink_tokens) +
       "," + std::to_string(protection.recent_tokens) + "," + KvSpecName(protection.codecs);
  c += SparseCondition(base);
  return AutoKey{options.kld, std::move(c)};
}

std::string DefaultAutoSchemePath(const std::string& model_path) {
  std::error_code ignored;
  if (fs::is_directory(model_path, ignored)) return (fs::path(model_path) / "model.kv-auto.json").string();
  return model_path + ".kv-auto.json";
}

Result<std::string> FallbackAutoSchemePath(const Engine& engine) {
  HF_ASSIGN_OR_RETURN(const std::string digest, ModelDigest(engine));
  return (fs::path(ModelStoreFolder()) / (digest.substr(0, 16) + ".kv-auto.json")).string();
}

Status SaveAutoScheme(const Engine& engine, const AutoKey& key, const AutoScheme& scheme,
                      const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::string digest, ModelDigest(engine));
  json entries = json::array();
  const auto old = ReadFileOf(digest, path);
  if (!old.ok() && old.status().code() != StatusCode::kNotFound) return old.status();
  if (old.ok()) {
    size_t i = 0;
    for (const json& entry : (*old)["schemes"]) {
      HF_ASSIGN_OR_RETURN(const bool same, HasKey(entry, key, Entry(path, i++)));
      if (!same) entries.push_back(entry);
    }
  }
  while (entries.size() >= kMostSchemes) entries.erase(0);
  entries.push_back(EntryOf(key, scheme));
  const json file{{"format", kFormat}, {"version", kVersion}, {"model", digest}, {"schemes", entries}};
  return WriteWhole(file.dump(1, ' ', true, json::error_handler_t::replace) + "\n", path);
}

Result<AutoScheme> LoadAutoScheme(const Engine& engine, const AutoKey& key, const CacheOptions& base,
                                  const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::string digest, ModelDigest(engine));
  HF_ASSIGN_OR_RETURN(const json file, ReadFileOf(digest, path));
  size_t i = 0;
  for (const json& entry : file["schemes"]) {
    const std::string where = Entry(path, i++);
    HF_ASSIGN_OR_RETURN(const bool same, HasKey(entry, key, where));
    if (!same) continue;
    HF_ASSIGN_OR_RETURN(AutoScheme scheme, SchemeOf(entry, where));
    HF_RETURN_IF_ERROR(CheckScheme(engine, key, base, scheme, where));
    return scheme;
  }
  return NotFound(path + ": no choice for kld " + std::to_string(key.kld) + " under these conditions");
}

}  // namespace holdfast
