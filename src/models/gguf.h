// GGUF model files, versions 2 and 3 (docs/formats/gguf.md): typed metadata and tensors over one mapped file.
//
// The file is treated as hostile: every count and size is capped and checked before it is used, every offset
// lies inside the file, and names are unique. What passes Open is safe to read through this interface without
// more checks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "holdfast/status.h"
#include "tensor/dtype.h"

namespace holdfast {

// Limits on what a file may claim; each refusal names the field, the value and the limit.
struct GgufLimits {
  static constexpr int64_t kMaxTensors = 65536;
  static constexpr int64_t kMaxKeys = 65536;
  static constexpr int64_t kMaxKeyBytes = 65535;  // the specification's own limit
  static constexpr int64_t kMaxTensorNameBytes = 256;
  static constexpr int64_t kMaxStringBytes = 16 << 20;
  static constexpr int64_t kMaxArrayElements = 16 << 20;
  static constexpr int kMaxArrayNesting = 4;
  static constexpr int64_t kMaxHeaderBytes = 512 << 20;  // everything before the tensor data
  static constexpr int kMaxDims = 4;
  static constexpr int64_t kMaxDim = 2147483647;
  static constexpr int64_t kMinAlignment = 8;
  static constexpr int64_t kMaxAlignment = 65536;
};

// The numbers are the file's.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
std::string_view GgufTypeName(GgufType type);
int64_t GgufScalarBytes(GgufType type);  // of one value; 0 for strings and arrays

// One metadata value. Views into the file: valid while the GgufFile lives.
struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::kUint8;
  GgufType element_type = GgufType::kUint8;  // kArray only
  int64_t elements = 1;                      // kArray: its length
  std::span<const std::byte> bytes;  // the value as the file has it; kArray: its elements; kString: the text
};

struct GgufTensor {
  std::string_view name;  // a view into the file
  DType type = DType::kF32;
  int n_dims = 0;                           // 1 to 4
  std::array<int64_t, 4> dims{1, 1, 1, 1};  // as the file has them: dims[0] is the contiguous one (columns)
  int64_t offset = 0;  // of the first byte, from the start of the file; a multiple of alignment()
  std::span<const std::byte> bytes;  // into the mapping
};

// Immutable; thread-safe. Views and spans that it returns are valid while it lives.
class GgufFile {
 public:
  // Errors: those of MappedFile::Open; kDataLoss (malformed), kOutOfRange (past one of the limits),
  // kUnimplemented (a version or tensor type that is not supported, by name).
  static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);
  // The same over bytes in memory, which must outlive the object; `label` stands for the path in messages.
  static Result<std::unique_ptr<GgufFile>> Parse(std::span<const std::byte> bytes, std::string label);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  int64_t alignment() const { return alignment_; }
  int64_t data_offset() const { return data_offset_; }

  std::span<const GgufValue> metadata() const { return values_; }  // in file order
  const GgufValue* Find(std::string_view key) const;               // null where absent
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // Typed reads. Errors: kNotFound (names the key), kInvalidArgument (names key, found type and wanted one).
  Result<int64_t> Int(std::string_view key) const;   // any integer type that fits
  Result<double> Float(std::string_view key) const;  // float32 or float64; finite
  Result<bool> Bool(std::string_view key) const;
  Result<std::string_view> String(std::string_view key) const;
  Result<std::vector<int64_t>> Ints(std::string_view key) const;  // array of any integer type or bool
  Result<std::vector<float>> Floats(std::string_view key) const;  // array of float32; finite
  Result<std::vector<std::string_view>> Strings(std::string_view key) const;  // views, no copies

  std::span<const GgufTensor> tensors() const { return tensors_; }  // in file order
  const GgufTensor* FindTensor(std::string_view name) const;        // null where absent

  // Lets the system drop the pages of a tensor whose content has been repacked.
  void Forget(const GgufTensor& tensor) const;

 private:
  friend class GgufParser;
  GgufFile() = default;
  Result<const GgufValue*> Require(std::string_view key) const;

  std::unique_ptr<MappedFile> mapping_;  // null for Parse
  std::string path_;
  uint32_t version_ = 0;
  int64_t alignment_ = 32;
  int64_t data_offset_ = 0;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> value_index_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace holdfast
