// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Immutable; the bytes stay valid while this object lives. Thread-safe.
class MappedFile {
 public:
  // Errors: kNotFound, kIoError (not a regular file, no permission), each naming the path.
  static Result<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  const std::string& path() const { return path_; }
  // Lets the system drop the resident pages of [offset, offset + size): their content has been repacked.
  void Forget(int64_t offset, int64_t size) const;

 private:
  MappedFile(std::string path, const std::byte* data, int64_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_;
  int64_t size_;
};

}  // namespace holdfast
