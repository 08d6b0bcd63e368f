#include "models/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "base/status_macros.h"
#include "models/json_reader.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

using nlohmann::json;

constexpr int64_t kLengthBytes = 8;

// The header of one file: an entry per tensor, from JSON that nobody vouches for.
class HeaderReader {
 public:
  HeaderReader(std::string path, int64_t data_bytes) : path_(std::move(path)), data_bytes_(data_bytes) {}

  // Fills in everything but `bytes`; offsets count from the start of the data.
  Status Read(const json& header, std::vector<SafetensorsTensor>& tensors) const;

 private:
  std::string Where(std::string_view what) const {
    return fmt::format("read safetensors {}: {}", Quoted(path_), what);
  }
  Status Malformed(std::string_view what) const { return DataLoss(Where(what)); }

  Status CheckMetadata(const json& value) const;
  Status ReadTensor(const std::string& name, const json& value, SafetensorsTensor& tensor,
                    int64_t& end) const;
  Status ReadDType(const std::string& field, const json& value, SafetensorsTensor& tensor) const;
  Status ReadShape(const std::string& field, const json& value, SafetensorsTensor& tensor) const;
  Status ReadOffsets(const std::string& field, const json& value, SafetensorsTensor& tensor,
                     int64_t& end) const;

  std::string path_;
  int64_t data_bytes_;
};

Status HeaderReader::CheckMetadata(const json& value) const {
  if (!value.is_object()) {
    return Malformed(fmt::format("__metadata__ is of type {}, wanted object", JsonTypeName(value)));
  }
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return Malformed(
          fmt::format("__metadata__ key {} is of type {}, wanted string", Quoted(key), JsonTypeName(text)));
    }
  }
  return OkStatus();
}

Status HeaderReader::ReadDType(const std::string& field, const json& value, SafetensorsTensor& tensor) const {
  if (!value.is_string()) {
    return Malformed(fmt::format("dtype of {} is of type {}, wanted string", field, JsonTypeName(value)));
  }
  const auto& name = value.get_ref<const std::string&>();
  if (name == "F32") {
    tensor.type = DType::kF32;
  } else if (name == "F16") {
    tensor.type = DType::kF16;
  } else if (name == "BF16") {
    tensor.type = DType::kBf16;
  } else {
    return Unimplemented(
        Where(fmt::format("dtype of {} is {}, supported are F32 F16 BF16", field, Quoted(name))));
  }
  return OkStatus();
}

Status HeaderReader::ReadShape(const std::string& field, const json& value, SafetensorsTensor& tensor) const {
  if (!value.is_array()) {
    return Malformed(fmt::format("shape of {} is of type {}, wanted array", field, JsonTypeName(value)));
  }
  if (value.empty() || value.size() > static_cast<size_t>(SafetensorsLimits::kMaxDims)) {
    return OutOfRange(Where(fmt::format("dim count of {} is {}, the limits are 1 and {}", field, value.size(),
                                        SafetensorsLimits::kMaxDims)));
  }
  for (const json& dim : value) {
    if (!dim.is_number_unsigned()) {
      return Malformed(fmt::format("dim {} of {} is not an unsigned integer", tensor.shape.size(), field));
    }
    const auto found = dim.get<uint64_t>();
    if (found < 1 || found > static_cast<uint64_t>(SafetensorsLimits::kMaxDim)) {
      return OutOfRange(Where(fmt::format("dim {} of {} is {}, the limits are 1 and {}", tensor.shape.size(),
                                          field, found, SafetensorsLimits::kMaxDim)));
    }
    tensor.shape.push_back(static_cast<int64_t>(found));
  }
  return OkStatus();
}

Status HeaderReader::ReadOffsets(const std::string& field, const json& value, SafetensorsTensor& tensor,
                                 int64_t& end) const {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
      !value[1].is_number_unsigned()) {
    return Malformed(fmt::format("data_offsets of {} is not an array of 2 unsigned integers", field));
  }
  const auto begin = value[0].get<uint64_t>();
  const auto stop = value[1].get<uint64_t>();
  if (stop > static_cast<uint64_t>(data_bytes_)) {
    return Malformed(
        fmt::format("data_offsets of {} end at {}, the file has {} bytes of data", field, stop, data_bytes_));
  }
  if (begin > stop)
    return Malformed(fmt::format("data_offsets of {} begin at {}, past their end {}", field, begin, stop));
  tensor.offset = static_cast<int64_t>(begin);
  end = static_cast<int64_t>(stop);
  return OkStatus();
}

Status HeaderReader::ReadTensor(const std::string& name, const json& value, SafetensorsTensor& tensor,
                                int64_t& end) const {
  if (name.empty() || name.size() > static_cast<size_t>(SafetensorsLimits::kMaxNameBytes)) {
    return OutOfRange(Where(fmt::format("length of tensor name {} is {}, the limits are 1 and {}",
                                        Quoted(name), name.size(), SafetensorsLimits::kMaxNameBytes)));
  }
  tensor.name = name;
  const std::string field = fmt::format("tensor {}", Quoted(name));
  if (!value.is_object())
    return Malformed(fmt::format("{} is of type {}, wanted object", field, JsonTypeName(value)));
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) return Malformed(fmt::format("{} has no {}, it is required", field, key));
  }
  if (value.size() != 3) {
    return Malformed(
        fmt::format("{} has {} keys, wanted dtype, shape and data_offsets only", field, value.size()));
  }
  HF_RETURN_IF_ERROR(ReadDType(field, value["dtype"], tensor));
  HF_RETURN_IF_ERROR(ReadShape(field, value["shape"], tensor));
  HF_RETURN_IF_ERROR(ReadOffsets(field, value["data_offsets"], tensor, end));
  std::optional<int64_t> wanted = GetDTypeTraits(tensor.type).block_bytes;
  for (const int64_t dim : tensor.shape) {
    if (wanted) wanted = CheckedMul(*wanted, dim);
  }
  if (!wanted || *wanted != end - tensor.offset) {
    const std::string needed = wanted ? std::to_string(*wanted) : "more than 2^63";
    return Malformed(fmt::format("data_offsets of {} span {} bytes, dtype and shape need {}", field,
                                 end - tensor.offset, needed));
  }
  return OkStatus();
}

Status HeaderReader::Read(const json& header, std::vector<SafetensorsTensor>& tensors) const {
  if (!header.is_object())
    return Malformed(fmt::format("header is of type {}, wanted object", JsonTypeName(header)));
  if (header.size() > static_cast<size_t>(SafetensorsLimits::kMaxTensors)) {
    return OutOfRange(Where(
        fmt::format("tensor count is {}, the limit is {}", header.size(), SafetensorsLimits::kMaxTensors)));
  }
  std::vector<int64_t> ends;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      HF_RETURN_IF_ERROR(CheckMetadata(value));
      continue;
    }
    HF_RETURN_IF_ERROR(ReadTensor(name, value, tensors.emplace_back(), ends.emplace_back()));
  }
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a].offset < tensors[b].offset; });
  std::vector<SafetensorsTensor> sorted;
  sorted.reserve(tensors.size());
  int64_t expected = 0;
  for (const size_t i : order) {
    if (tensors[i].offset != expected) {
      return Malformed(
          fmt::format("data_offsets of tensor {} begin at {}, {}: the tensor before it ends at {}",
                      Quoted(tensors[i].name), tensors[i].offset,
                      tensors[i].offset < expected ? "an overlap" : "a gap", expected));
    }
    expected = ends[i];
    sorted.push_back(std::move(tensors[i]));
  }
  if (expected != data_bytes_) {
    return Malformed(fmt::format("tensors end at {}, the file has {} bytes of data", expected, data_bytes_));
  }
  tensors = std::move(sorted);
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Parse(std::span<const std::byte> bytes,
                                                                std::string label) {
  const auto where = [&](std::string_view what) {
    return fmt::format("read safetensors {}: {}", Quoted(label), what);
  };
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < kLengthBytes) {
    return DataLoss(where(fmt::format("header length needs {} bytes, the file has {}", kLengthBytes, size)));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > static_cast<uint64_t>(SafetensorsLimits::kMaxHeaderBytes)) {
    return OutOfRange(where(fmt::format("header length is {}, the limit is {}", header_bytes,
                                        SafetensorsLimits::kMaxHeaderBytes)));
  }
  const auto header_size = static_cast<int64_t>(header_bytes);
  if (header_size > size - kLengthBytes) {
    return DataLoss(where(
        fmt::format("header length is {}, the file has {} bytes left", header_size, size - kLengthBytes)));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              static_cast<size_t>(header_size));
  if (text.empty() || text.front() != '{') return DataLoss(where("header does not begin with '{'"));
  const JsonLimits limits{.max_bytes = SafetensorsLimits::kMaxHeaderBytes, .max_depth = 4};
  HF_ASSIGN_OR_RETURN(const json header, ParseJson(text, limits, where("header")));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->path_ = std::move(label);
  const int64_t data_begin = kLengthBytes + header_size;
  HF_RETURN_IF_ERROR(HeaderReader(file->path_, size - data_begin).Read(header, file->tensors_));
  for (SafetensorsTensor& tensor : file->tensors_) {
    int64_t tensor_bytes = GetDTypeTraits(tensor.type).block_bytes;
    for (const int64_t dim : tensor.shape) tensor_bytes *= dim;  // checked against the file by HeaderReader
    tensor.offset += data_begin;
    tensor.bytes = bytes.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor_bytes));
  }
  return file;
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapping, MappedFile::Open(path));
  HF_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, Parse(mapping->bytes(), path));
  file->mapping_ = std::move(mapping);
  return file;
}

void SafetensorsFile::Forget(const SafetensorsTensor& tensor) const {
  if (mapping_ != nullptr) mapping_->Forget(tensor.offset, static_cast<int64_t>(tensor.bytes.size()));
}

}  // namespace holdfast
