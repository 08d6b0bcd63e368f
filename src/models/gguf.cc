#include "models/gguf.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

template <typename T>
T LoadValue(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kUint16:
    case GgufType::kInt16:
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kUint64:
    case GgufType::kInt64:
      return true;
    default:
      return false;
  }
}

// REQUIRES IsInteger(type) or kBool, and that a uint64 fits (checked by the caller).
int64_t LoadInteger(GgufType type, const std::byte* p) {
  switch (type) {
    case GgufType::kUint8:
      return LoadValue<uint8_t>(p);
    case GgufType::kInt8:
      return LoadValue<int8_t>(p);
    case GgufType::kUint16:
      return LoadValue<uint16_t>(p);
    case GgufType::kInt16:
      return LoadValue<int16_t>(p);
    case GgufType::kUint32:
      return LoadValue<uint32_t>(p);
    case GgufType::kInt32:
      return LoadValue<int32_t>(p);
    case GgufType::kBool:
      return LoadValue<uint8_t>(p);
    default:
      return LoadValue<int64_t>(p);
  }
}

std::string TypeOf(const GgufValue& value) {
  if (value.type != GgufType::kArray) return std::string(GgufTypeName(value.type));
  return fmt::format("array of {}", GgufTypeName(value.element_type));
}

Status WrongType(const std::string& path, const GgufValue& value, std::string_view wanted) {
  return InvalidArgument(fmt::format("read gguf {}: key {} is of type {}, wanted {}", Quoted(path),
                                     Quoted(value.key), TypeOf(value), wanted));
}

Status TooLarge(const std::string& path, const GgufValue& value, uint64_t found) {
  return OutOfRange(fmt::format("read gguf {}: key {} is {}, the limit is {}", Quoted(path),
                                Quoted(value.key), found, INT64_MAX));
}

Status NotFinite(const std::string& path, const GgufValue& value) {
  return InvalidArgument(
      fmt::format("read gguf {}: key {} holds a number that is not finite", Quoted(path), Quoted(value.key)));
}

}  // namespace

int64_t GgufScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::string_view GgufTypeName(GgufType type) {
  constexpr std::string_view kNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                         "bool",  "string", "array",  "uint64", "int64",  "float64"};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto it = value_index_.find(key);
  return it == value_index_.end() ? nullptr : &values_[it->second];
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

Result<const GgufValue*> GgufFile::Require(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr)
    return NotFound(fmt::format("read gguf {}: key {} is missing", Quoted(path_), Quoted(key)));
  return value;
}

Result<int64_t> GgufFile::Int(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (!IsInteger(value->type)) return WrongType(path_, *value, "an integer");
  const int64_t found = LoadInteger(value->type, value->bytes.data());
  if (value->type == GgufType::kUint64 && found < 0)
    return TooLarge(path_, *value, static_cast<uint64_t>(found));
  return found;
}

Result<double> GgufFile::Float(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  double found = 0;
  if (value->type == GgufType::kFloat32) {
    found = LoadValue<float>(value->bytes.data());
  } else if (value->type == GgufType::kFloat64) {
    found = LoadValue<double>(value->bytes.data());
  } else {
    return WrongType(path_, *value, "float32 or float64");
  }
  if (!std::isfinite(found)) return NotFinite(path_, *value);
  return found;
}

Result<bool> GgufFile::Bool(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (value->type != GgufType::kBool) return WrongType(path_, *value, "bool");
  return value->bytes[0] != std::byte{0};
}

Result<std::string_view> GgufFile::String(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (value->type != GgufType::kString) return WrongType(path_, *value, "string");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

Result<std::vector<int64_t>> GgufFile::Ints(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const GgufType type = value->element_type;
  if (value->type != GgufType::kArray || !(IsInteger(type) || type == GgufType::kBool)) {
    return WrongType(path_, *value, "array of integers");
  }
  std::vector<int64_t> out(static_cast<size_t>(value->elements));
  const std::byte* p = value->bytes.data();
  for (int64_t& element : out) {
    element = LoadInteger(type, p);
    if (type == GgufType::kUint64 && element < 0)
      return TooLarge(path_, *value, static_cast<uint64_t>(element));
    p += static_cast<size_t>(GgufScalarBytes(type));
  }
  return out;
}

Result<std::vector<float>> GgufFile::Floats(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (value->type != GgufType::kArray || value->element_type != GgufType::kFloat32) {
    return WrongType(path_, *value, "array of float32");
  }
  std::vector<float> out(static_cast<size_t>(value->elements));
  if (!out.empty()) std::memcpy(out.data(), value->bytes.data(), out.size() * sizeof(float));
  for (const float f : out) {
    if (!std::isfinite(f)) return NotFinite(path_, *value);
  }
  return out;
}

Result<std::vector<std::string_view>> GgufFile::Strings(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString) {
    return WrongType(path_, *value, "array of string");
  }
  std::vector<std::string_view> out(static_cast<size_t>(value->elements));
  const std::byte* p = value->bytes.data();
  for (std::string_view& element : out) {  // lengths were checked when the file was opened
    const auto length = static_cast<size_t>(LoadValue<uint64_t>(p));
    p += sizeof(uint64_t);
    element = {reinterpret_cast<const char*>(p), length};
    p += length;
  }
  return out;
}

void GgufFile::Forget(const GgufTensor& tensor) const {
  if (mapping_ != nullptr) mapping_->Forget(tensor.offset, static_cast<int64_t>(tensor.bytes.size()));
}

}  // namespace holdfast
