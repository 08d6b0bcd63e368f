// Hugging Face safetensors (docs/formats/safetensors.md): one file, or shards named by an index, in F32, F16
// and BF16.
//
// Hostile input, as in gguf.h: the header's size, depth and counts are capped, every tensor's bytes lie
// inside the file and tile it exactly, names are unique, and an index names files of its own folder only.
#pragma once

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

struct SafetensorsLimits {
  static constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
  static constexpr int64_t kMaxIndexBytes = 64 << 20;
  static constexpr int64_t kMaxTensors = 65536;  // of a file, and of a sharded model
  static constexpr int64_t kMaxNameBytes = 1024;
  static constexpr int64_t kMaxDims = 4;
  static constexpr int64_t kMaxDim = 2147483647;
  static constexpr int64_t kMaxShards = 1024;
};

struct SafetensorsTensor {
  std::string name;
  DType type = DType::kF32;          // kF32, kF16 or kBf16
  std::vector<int64_t> shape;        // row-major: the last one is contiguous
  int64_t offset = 0;                // of the first byte, from the start of the file
  std::span<const std::byte> bytes;  // into the mapping; no alignment is promised
};

// One file. Immutable; thread-safe. Spans are valid while it lives.
class SafetensorsFile {
 public:
  // Errors: those of MappedFile::Open; kDataLoss (malformed), kOutOfRange (past a limit), kUnimplemented
  // (another element type, by name).
  static Result<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  // The same over bytes in memory, which must outlive the object; `label` stands for the path in messages.
  static Result<std::unique_ptr<SafetensorsFile>> Parse(std::span<const std::byte> bytes, std::string label);

  const std::string& path() const { return path_; }
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }  // ascending offset
  void Forget(const SafetensorsTensor& tensor) const;

 private:
  SafetensorsFile() = default;
  std::unique_ptr<MappedFile> mapping_;
  std::string path_;
  std::vector<SafetensorsTensor> tensors_;
};

// All safetensors of a model folder: `model.safetensors`, or the shards of `model.safetensors.index.json`.
class SafetensorsModel {
 public:
  // Errors as above, and kNotFound naming what the folder lacks; an index must agree with its shards on every
  // tensor and on the total size.
  static Result<std::unique_ptr<SafetensorsModel>> Open(const std::string& folder);

  struct Entry {
    const SafetensorsFile* file;
    const SafetensorsTensor* tensor;
  };
  std::span<const Entry> tensors() const { return entries_; }

 private:
  SafetensorsModel() = default;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Entry> entries_;
};

}  // namespace holdfast
