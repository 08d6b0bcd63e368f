// The centres of one model: found, read once, and put into its caches' configurations.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/center_file.h"
#include "holdfast/calibrate.h"
#include "holdfast/engine.h"

namespace holdfast {

// Not thread-safe.
class CenterStore {
 public:
  // layers: shapes and heads of the model's cache.
  CenterStore(std::string model_path, int64_t vocab_size, std::vector<LayerConfig> layers);

  // Centres the sides that have an integer codec, as options ask. Caches that use the same file share its vectors.
  // Errors: those of Read; kInvalidArgument where options name a file and no side has an integer codec, or it is
  // named and centring is off.
  Status Apply(const CacheOptions& options, CacheConfig& config);

  Result<KvCenters> Read(const std::string& path);
  // The bytes of a file of them. Error kInvalidArgument: centres of another shape.
  Result<std::vector<std::byte>> Encode(const KvCenters& centers);

 private:
  struct Loaded {
    std::filesystem::file_time_type written;
    std::shared_ptr<const KvCenters> centers;
  };
  Result<const CenterIdentity*> Identity();
  Result<std::shared_ptr<const KvCenters>> Load(const std::string& path);

  std::string model_path_;
  CenterIdentity identity_;
  bool has_fingerprint_ = false;
  std::map<std::string, Loaded> loaded_;
};

}  // namespace holdfast
