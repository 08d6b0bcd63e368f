#include "models/weight_source.h"

#include <fmt/format.h>

#include <cstring>

#include "base/float16.h"
#include "base/status_macros.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

std::string ShapeOf(int64_t rows, int64_t cols) {
  return rows == 1 ? fmt::format("[{}]", cols) : fmt::format("[{}, {}]", rows, cols);
}

}  // namespace

Result<std::unique_ptr<WeightSource>> WeightSource::Create(std::shared_ptr<const void> owner,
                                                           std::string path, std::vector<Entry> entries) {
  std::unique_ptr<WeightSource> source(new WeightSource());
  source->owner_ = std::move(owner);
  source->path_ = std::move(path);
  source->entries_ = std::move(entries);
  for (size_t i = 0; i < source->entries_.size(); ++i) {
    Entry& entry = source->entries_[i];
    source->total_bytes_ += static_cast<int64_t>(entry.weight.bytes.size());
    if (entry.name.empty()) continue;
    entry.weight.name = entry.name;
    const auto [it, inserted] = source->index_.emplace(entry.name, i);
    if (!inserted) {
      return DataLoss(fmt::format("load weights {}: tensors {} and {} both are {}, one is allowed",
                                  Quoted(source->path_), Quoted(source->entries_[it->second].file_name),
                                  Quoted(entry.file_name), entry.name));
    }
  }
  return source;
}

Result<Weight> WeightSource::Take(std::string_view name, int64_t rows, int64_t cols) {
  const auto it = index_.find(name);
  if (it == index_.end()) {
    return NotFound(fmt::format("load weights {}: tensor {} is missing", Quoted(path_), Quoted(name)));
  }
  Entry& entry = entries_[it->second];
  if (entry.weight.rows != rows || entry.weight.cols != cols) {
    return InvalidArgument(fmt::format("load weights {}: tensor {} has shape {}, the configuration needs {}",
                                       Quoted(path_), Quoted(entry.file_name),
                                       ShapeOf(entry.weight.rows, entry.weight.cols), ShapeOf(rows, cols)));
  }
  entry.taken = true;
  return entry.weight;
}

Result<std::vector<float>> WeightSource::TakeVector(std::string_view name, int64_t n) {
  HF_ASSIGN_OR_RETURN(const Weight weight, Take(name, 1, n));
  std::vector<float> out(static_cast<size_t>(n));
  if (weight.type == DType::kF32) {
    std::memcpy(out.data(), weight.bytes.data(), weight.bytes.size());
  } else if (weight.type == DType::kF16 || weight.type == DType::kBf16) {
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, weight.bytes.data() + 2 * i, sizeof(bits));
      out[i] = weight.type == DType::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
    }
  } else {
    return Unimplemented(fmt::format("load weights {}: vector {} is of type {}, supported are F32 F16 BF16",
                                     Quoted(path_), Quoted(name), GetDTypeTraits(weight.type).name));
  }
  Forget(weight);
  return out;
}

void WeightSource::Forget(const Weight& weight) {
  const auto it = index_.find(weight.name);
  if (it != index_.end() && entries_[it->second].forget) entries_[it->second].forget();
}

std::vector<std::string> WeightSource::Unused() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    if (!entry.taken) names.push_back(entry.file_name);
  }
  return names;
}

Status WeightSource::CheckAllTaken() const {
  const std::vector<std::string> unused = Unused();
  if (unused.empty()) return OkStatus();
  constexpr size_t kNamed = 5;
  std::string list;
  for (size_t i = 0; i < unused.size() && i < kNamed; ++i) list += (i == 0 ? "" : ", ") + Quoted(unused[i]);
  if (unused.size() > kNamed) list += ", ...";
  return Unimplemented(
      fmt::format("load weights {}: {} tensors are not known to this family, the limit is 0: {}",
                  Quoted(path_), unused.size(), list));
}

Result<std::unique_ptr<WeightSource>> MakeWeightSource(std::shared_ptr<const GgufFile> file) {
  std::vector<WeightSource::Entry> entries;
  entries.reserve(file->tensors().size());
  for (const GgufTensor& tensor : file->tensors()) {
    WeightSource::Entry& entry = entries.emplace_back();
    entry.file_name = tensor.name;
    if (tensor.dims[2] == 1 && tensor.dims[3] == 1) entry.name = tensor.name;
    entry.weight = {{}, tensor.type, tensor.dims[1], tensor.dims[0], tensor.bytes};
    entry.forget = [owner = file.get(), &tensor] { owner->Forget(tensor); };
  }
  std::string path = file->path();
  return WeightSource::Create(std::move(file), std::move(path), std::move(entries));
}

}  // namespace holdfast
