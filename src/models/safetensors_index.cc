// A model folder's safetensors: one file, or the shards that model.safetensors.index.json names.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/status_macros.h"
#include "models/json_reader.h"
#include "models/quoted.h"
#include "models/safetensors.h"

namespace holdfast {
namespace {

using nlohmann::json;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A file's plain name: nothing that could lead out of the folder.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

struct ShardIndex {
  std::map<std::string, std::string> shard_of;  // tensor name -> file name
  std::set<std::string> shards;
  int64_t total_bytes = -1;  // -1: the index does not say
};

Status ReadWeightMap(const json& map, const std::string& where, ShardIndex& index) {
  if (map.size() > static_cast<size_t>(SafetensorsLimits::kMaxTensors)) {
    return OutOfRange(fmt::format("{}: tensor count of weight_map is {}, the limit is {}", where, map.size(),
                                  SafetensorsLimits::kMaxTensors));
  }
  for (const auto& [name, shard] : map.items()) {
    if (!shard.is_string()) {
      return DataLoss(fmt::format("{}: shard of tensor {} is of type {}, wanted string", where, Quoted(name),
                                  JsonTypeName(shard)));
    }
    const auto& file_name = shard.get_ref<const std::string&>();
    if (!IsPlainName(file_name)) {
      return DataLoss(
          fmt::format("{}: shard of tensor {} is {}, wanted the name of a file in the model's folder", where,
                      Quoted(name), Quoted(file_name)));
    }
    index.shard_of.emplace(name, file_name);
    index.shards.insert(file_name);
  }
  if (index.shards.empty()) return DataLoss(where + ": weight_map names 0 files, at least 1 is needed");
  if (index.shards.size() > static_cast<size_t>(SafetensorsLimits::kMaxShards)) {
    return OutOfRange(fmt::format("{}: file count of weight_map is {}, the limit is {}", where,
                                  index.shards.size(), SafetensorsLimits::kMaxShards));
  }
  return OkStatus();
}

Result<ShardIndex> ReadIndex(const std::string& path) {
  const std::string where = fmt::format("read safetensors index {}", Quoted(path));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const JsonLimits limits{.max_bytes = SafetensorsLimits::kMaxIndexBytes, .max_depth = 8};
  HF_ASSIGN_OR_RETURN(const json root, ParseJson(text, limits, where));
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    return DataLoss(where + ": weight_map is missing or not an object");
  }
  ShardIndex index;
  HF_RETURN_IF_ERROR(ReadWeightMap(root["weight_map"], where, index));
  if (root.contains("metadata") && root["metadata"].is_object() && root["metadata"].contains("total_size")) {
    const json& total = root["metadata"]["total_size"];
    if (!total.is_number_unsigned() || total.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return DataLoss(where + ": metadata total_size is not an unsigned integer below 2^63");
    }
    index.total_bytes = static_cast<int64_t>(total.get<uint64_t>());
  }
  return index;
}

// Every tensor of every shard is where the index says, and the other way round.
Status CheckIndex(const ShardIndex& index, const std::string& where,
                  const std::vector<SafetensorsModel::Entry>& entries,
                  const std::vector<std::string>& file_names) {
  std::set<std::string_view> seen;
  int64_t total = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsTensor& tensor = *entries[i].tensor;
    const auto it = index.shard_of.find(tensor.name);
    if (it == index.shard_of.end()) {
      return DataLoss(fmt::format("{}: tensor {} of file {} is not in weight_map", where, Quoted(tensor.name),
                                  Quoted(file_names[i])));
    }
    if (it->second != file_names[i]) {
      return DataLoss(fmt::format("{}: tensor {} is in file {}, weight_map says {}", where,
                                  Quoted(tensor.name), Quoted(file_names[i]), Quoted(it->second)));
    }
    seen.insert(tensor.name);
    total += static_cast<int64_t>(tensor.bytes.size());
  }
  for (const auto& [name, shard] : index.shard_of) {
    if (!seen.contains(name)) {
      return DataLoss(fmt::format("{}: tensor {} is not in file {}, where weight_map puts it", where,
                                  Quoted(name), Quoted(shard)));
    }
  }
  if (index.total_bytes >= 0 && index.total_bytes != total) {
    return DataLoss(fmt::format("{}: metadata total_size is {}, the files' tensors have {} bytes", where,
                                index.total_bytes, total));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<SafetensorsModel>> SafetensorsModel::Open(const std::string& folder) {
  const std::string single = folder + "/model.safetensors";
  const std::string index_path = folder + "/model.safetensors.index.json";
  std::unique_ptr<SafetensorsModel> model(new SafetensorsModel());
  if (Exists(single)) {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(single));
    for (const SafetensorsTensor& tensor : file->tensors()) model->entries_.push_back({file.get(), &tensor});
    model->files_.push_back(std::move(file));
    return model;
  }
  if (!Exists(index_path)) {
    return NotFound(fmt::format(
        "read model folder {}: neither model.safetensors nor model.safetensors.index.json is there",
        Quoted(folder)));
  }
  HF_ASSIGN_OR_RETURN(const ShardIndex index, ReadIndex(index_path));
  std::vector<std::string> file_names;  // of each entry
  for (const std::string& name : index.shards) {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(folder + "/" + name));
    for (const SafetensorsTensor& tensor : file->tensors()) {
      model->entries_.push_back({file.get(), &tensor});
      file_names.push_back(name);
    }
    model->files_.push_back(std::move(file));
  }
  HF_RETURN_IF_ERROR(CheckIndex(index, fmt::format("read safetensors index {}", Quoted(index_path)),
                                model->entries_, file_names));
  return model;
}

}  // namespace holdfast
