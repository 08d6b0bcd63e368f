#include "engine/center_store.h"

#include <utility>

#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "engine/cache_transforms.h"
#include "engine/engine_core.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

Result<CenterStore*> StoreOf(const Engine& engine) {
  const auto* core = dynamic_cast<const EngineCore*>(&engine);
  if (core == nullptr) return InvalidArgument("centres: the engine was not made by Engine::Load");
  return &core->centers();
}

Result<std::vector<std::byte>> Encoded(const Engine& engine, const KvCenters& centers) {
  HF_ASSIGN_OR_RETURN(CenterStore * store, StoreOf(engine));
  return store->Encode(centers);
}

Status WriteBytes(const std::vector<std::byte>& bytes, OutputFile& file) {
  HF_RETURN_IF_ERROR(file.Check());
  file.stream().write(reinterpret_cast<const char*>(bytes.data()),
                      static_cast<std::streamsize>(bytes.size()));
  return file.Finish();
}

}  // namespace

std::string DefaultCenterPath(const std::string& model_path) {
  std::error_code ignored;
  if (fs::is_directory(model_path, ignored)) return (fs::path(model_path) / "model.centers").string();
  return model_path + ".centers";
}

Status WriteCenters(const Engine& engine, const KvCenters& centers, OutputFile& file) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, Encoded(engine, centers));
  return WriteBytes(bytes, file);
}

Status WriteCenters(const Engine& engine, const KvCenters& centers, const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, Encoded(engine, centers));
  OutputFile file(path);
  return WriteBytes(bytes, file);
}

Result<KvCenters> ReadCenters(const Engine& engine, const std::string& path) {
  HF_ASSIGN_OR_RETURN(CenterStore * store, StoreOf(engine));
  return store->Read(path);
}

CenterStore::CenterStore(std::string model_path, int64_t vocab_size, std::vector<LayerConfig> layers)
    : model_path_(std::move(model_path)) {
  identity_.vocab_size = vocab_size;
  identity_.layers = std::move(layers);
}

// Only a model that has a file of centres pays for its fingerprint.
Result<const CenterIdentity*> CenterStore::Identity() {
  if (!has_fingerprint_) {
    HF_ASSIGN_OR_RETURN(identity_.fingerprint, FingerprintOfModel(model_path_));
    has_fingerprint_ = true;
  }
  return &identity_;
}

Result<KvCenters> CenterStore::Read(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const CenterIdentity* identity, Identity());
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  return DecodeCenters(file->bytes(), *identity, path);
}

Result<std::vector<std::byte>> CenterStore::Encode(const KvCenters& centers) {
  HF_RETURN_IF_ERROR(CheckCenters(identity_, centers));
  HF_ASSIGN_OR_RETURN(const CenterIdentity* identity, Identity());
  return EncodeCenters(*identity, centers);
}

Result<std::shared_ptr<const KvCenters>> CenterStore::Load(const std::string& path) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(path, error);
  const auto found = loaded_.find(path);
  if (found != loaded_.end() && !error && found->second.written == written) return found->second.centers;
  HF_ASSIGN_OR_RETURN(KvCenters centers, Read(path));
  auto shared = std::make_shared<const KvCenters>(std::move(centers));
  loaded_[path] = {written, shared};
  return shared;
}

Status CenterStore::Apply(const CacheOptions& options, CacheConfig& config) {
  const bool named = !options.center_file.empty();
  if (named && !options.center) {
    return InvalidArgument("cache: center_file is " + options.center_file + ", but center is off");
  }
  if (!options.center) return OkStatus();
  if (!HasIntegerCodec(config)) {
    if (!named) return OkStatus();
    return InvalidArgument("cache: center_file is " + options.center_file +
                           ", but no layer has an integer codec, which it could help");
  }
  const std::string path = named ? options.center_file : DefaultCenterPath(model_path_);
  std::error_code error;
  if (!named && !fs::exists(path, error)) return OkStatus();
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<const KvCenters> centers, Load(path));
  return SetCenters(*centers, config);
}

}  // namespace holdfast
