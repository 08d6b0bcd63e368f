// Model files made in memory, for tests only: well-formed ones, and ones that lie in exactly one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/gguf.h"

namespace holdfast::test {

inline std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <typename T>
std::string Raw(T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}
inline std::string RawText(std::string_view text) {
  return Raw<uint64_t>(text.size()) + std::string(text);
}

// Appends whatever it is told to; nothing is checked, so that any field can lie.
class GgufWriter {
 public:
  uint32_t version = 3;
  std::string magic = "GGUF";
  int64_t alignment = 32;                           // what the data is laid out with; not written as a key
  int64_t claimed_tensors = -1, claimed_keys = -1;  // -1: the true counts
  std::string trailing;                             // after the last tensor

  GgufWriter& RawKey(std::string_view key, GgufType type, std::string_view value) {
    entries_.push_back(RawText(key) + Raw(static_cast<uint32_t>(type)) + std::string(value));
    return *this;
  }
  GgufWriter& Uint32(std::string_view key, uint32_t value) {
    return RawKey(key, GgufType::kUint32, Raw(value));
  }
  GgufWriter& Float32(std::string_view key, float value) {
    return RawKey(key, GgufType::kFloat32, Raw(value));
  }
  GgufWriter& Bool(std::string_view key, bool value) {
    return RawKey(key, GgufType::kBool, Raw(static_cast<uint8_t>(value)));
  }
  GgufWriter& String(std::string_view key, std::string_view value) {
    return RawKey(key, GgufType::kString, RawText(value));
  }
  GgufWriter& Strings(std::string_view key, const std::vector<std::string>& values) {
    std::string body;
    for (const std::string& value : values) body += RawText(value);
    return Array(key, GgufType::kString, values.size(), body);
  }
  template <typename T>
  GgufWriter& Numbers(std::string_view key, GgufType type, const std::vector<T>& values) {
    std::string body;
    for (const T& value : values) body += Raw(value);
    return Array(key, type, values.size(), body);
  }
  GgufWriter& Array(std::string_view key, GgufType type, uint64_t count, std::string_view body) {
    return RawKey(key, GgufType::kArray, Raw(static_cast<uint32_t>(type)) + Raw(count) + std::string(body));
  }

  // type: GGML's number. Placed after the tensor before it, or at `offset` from the start of the data.
  GgufWriter& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                     std::string_view data, int64_t offset = -1) {
    std::string entry = RawText(name) + Raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) entry += Raw(dim);
    const auto at = static_cast<uint64_t>(offset >= 0 ? offset : static_cast<int64_t>(data_.size()));
    tensors_.push_back(entry + Raw(type) + Raw(at));
    data_ += data;
    data_.resize((data_.size() + static_cast<size_t>(alignment) - 1) / static_cast<size_t>(alignment) *
                 static_cast<size_t>(alignment));
    return *this;
  }
  // A vector or matrix of float32 zeros.
  GgufWriter& Zeros(std::string_view name, const std::vector<uint64_t>& dims) {
    uint64_t bytes = sizeof(float);
    for (const uint64_t dim : dims) bytes *= dim;
    return Tensor(name, dims, 0, std::string(bytes, '\0'));
  }

  std::string Build() const {
    std::string out = magic + Raw(version);
    out += Raw(claimed_tensors >= 0 ? claimed_tensors : static_cast<int64_t>(tensors_.size()));
    out += Raw(claimed_keys >= 0 ? claimed_keys : static_cast<int64_t>(entries_.size()));
    for (const std::string& entry : entries_) out += entry;
    for (const std::string& tensor : tensors_) out += tensor;
    const auto step = static_cast<size_t>(alignment);
    if (!tensors_.empty()) out.resize((out.size() + step - 1) / step * step);
    return out + data_ + trailing;
  }

 private:
  std::vector<std::string> entries_, tensors_;
  std::string data_;
};

// A safetensors file: its length, a header and the data.
inline std::string SafetensorsBytes(std::string_view header, size_t data_bytes) {
  return Raw<uint64_t>(header.size()) + std::string(header) + std::string(data_bytes, '\0');
}

}  // namespace holdfast::test
