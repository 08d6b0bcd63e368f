// SHA-256: of bytes, of a stream of them, and of typed fields. Computed by OpenSSL.
//
// Every call throws std::bad_alloc where memory ends, and nothing else: OpenSSL has no other way to fail here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace holdfast {

using Sha256 = std::array<std::byte, 32>;

Sha256 Sha256Of(std::span<const std::byte> bytes);
// 64 lower-case hexadecimal digits.
std::string HexOf(const Sha256& digest);
// A digest is uniform already: its first bytes are a hash of it.
struct Sha256Hash {
  size_t operator()(const Sha256& digest) const;
};

// The digest of bytes that come in pieces; how they are cut makes no difference. Not thread-safe.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  void Add(std::span<const std::byte> bytes);
  // The digest of all that was added; the stream begins anew.
  Sha256 Finish();

 private:
  void Update(std::span<const std::byte> bytes);

  // Small pieces are collected: a call of OpenSSL costs as much as hashing a hundred bytes.
  static constexpr size_t kPendingBytes = 512;
  void* context_;  // EVP_MD_CTX, lent by the thread
  bool begun_ = false;
  size_t pending_size_ = 0;
  std::array<std::byte, kPendingBytes> pending_;
};

// The digest of a sequence of named, typed, length-prefixed fields: no two different sequences make the same bytes.
// The encoding is that of docs/formats/block-identity.md. Names have at most 255 bytes. Not thread-safe.
class Sha256Builder {
 public:
  // format, version: what the fields are of; the first two fields.
  Sha256Builder(std::string_view format, uint64_t version);

  Sha256Builder& AddU64(std::string_view name, uint64_t value);
  Sha256Builder& AddF32(std::string_view name, float value);  // by its bits
  Sha256Builder& AddString(std::string_view name, std::string_view text);
  Sha256Builder& AddBytes(std::string_view name, std::span<const std::byte> bytes);
  Sha256Builder& AddDigest(std::string_view name, const Sha256& digest) { return AddBytes(name, digest); }
  Sha256Builder& AddTokens(std::string_view name, std::span<const int32_t> tokens);
  // The digest of all fields; nothing may be added afterwards.
  Sha256 Finish() { return stream_.Finish(); }

 private:
  void AddHeader(char type, std::string_view name, size_t payload_bytes);

  Sha256Stream stream_;
};

}  // namespace holdfast
