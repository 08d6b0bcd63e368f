#include "base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace holdfast {
namespace {

using Context = std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)>;

const EVP_MD* Algorithm() {
  // Fetched once: EVP_sha256() would look its provider up at every start of a digest.
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  return algorithm;
}

void Require(bool done) {
  if (!done) throw std::bad_alloc();
}

constexpr size_t kMostSpare = 4;

// Contexts that this thread's streams have given back: making one costs as much as a short digest.
std::vector<Context>& SpareContexts() {
  thread_local std::vector<Context> spare = [] {
    std::vector<Context> none;
    none.reserve(kMostSpare);  // a destructor that puts one back must not allocate
    return none;
  }();
  return spare;
}

std::array<std::byte, 8> LittleEndian(uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

}  // namespace

Sha256 Sha256Of(std::span<const std::byte> bytes) {
  Sha256Stream stream;
  stream.Add(bytes);
  return stream.Finish();
}

std::string HexOf(const Sha256& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const std::byte b : digest) {
    text += kDigits[static_cast<size_t>(b) >> 4];
    text += kDigits[static_cast<size_t>(b) & 15];
  }
  return text;
}

size_t Sha256Hash::operator()(const Sha256& digest) const {
  size_t hash;
  std::memcpy(&hash, digest.data(), sizeof hash);
  return hash;
}

Sha256Stream::Sha256Stream() {
  std::vector<Context>& spare = SpareContexts();
  Context context(nullptr, EVP_MD_CTX_free);
  if (spare.empty()) {
    context.reset(EVP_MD_CTX_new());
    Require(context != nullptr);
  } else {
    context = std::move(spare.back());
    spare.pop_back();
  }
  context_ = context.release();
}

Sha256Stream::~Sha256Stream() {
  Context context(static_cast<EVP_MD_CTX*>(context_), EVP_MD_CTX_free);
  std::vector<Context>& spare = SpareContexts();
  if (spare.size() < kMostSpare) spare.push_back(std::move(context));
}

void Sha256Stream::Add(std::span<const std::byte> bytes) {
  if (bytes.size() > kPendingBytes - pending_size_) {
    Update(std::span(pending_).first(pending_size_));
    pending_size_ = 0;
    if (bytes.size() > kPendingBytes) return Update(bytes);
  }
  std::copy(bytes.begin(), bytes.end(), pending_.begin() + static_cast<ptrdiff_t>(pending_size_));
  pending_size_ += bytes.size();
}

void Sha256Stream::Update(std::span<const std::byte> bytes) {
  EVP_MD_CTX* context = static_cast<EVP_MD_CTX*>(context_);
  if (!begun_) Require(Algorithm() != nullptr && EVP_DigestInit_ex2(context, Algorithm(), nullptr) == 1);
  begun_ = true;
  if (!bytes.empty()) Require(EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1);
}

Sha256 Sha256Stream::Finish() {
  Update(std::span(pending_).first(pending_size_));
  pending_size_ = 0;
  begun_ = false;
  Sha256 digest;
  Require(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_),
                             reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1);
  return digest;
}

Sha256Builder::Sha256Builder(std::string_view format, uint64_t version) {
  AddString("format", format).AddU64("version", version);
}

void Sha256Builder::AddHeader(char type, std::string_view name, size_t payload_bytes) {
  assert(name.size() <= 255);
  const std::array<std::byte, 2> head = {static_cast<std::byte>(type), static_cast<std::byte>(name.size())};
  stream_.Add(head);
  stream_.Add(std::as_bytes(std::span(name)));
  stream_.Add(LittleEndian(payload_bytes));
}

Sha256Builder& Sha256Builder::AddU64(std::string_view name, uint64_t value) {
  AddHeader('u', name, sizeof value);
  stream_.Add(LittleEndian(value));
  return *this;
}

Sha256Builder& Sha256Builder::AddF32(std::string_view name, float value) {
  AddHeader('f', name, sizeof value);
  stream_.Add(std::span<const std::byte>(LittleEndian(std::bit_cast<uint32_t>(value))).first(sizeof value));
  return *this;
}

Sha256Builder& Sha256Builder::AddString(std::string_view name, std::string_view text) {
  AddHeader('s', name, text.size());
  stream_.Add(std::as_bytes(std::span(text)));
  return *this;
}

Sha256Builder& Sha256Builder::AddBytes(std::string_view name, std::span<const std::byte> bytes) {
  AddHeader('b', name, bytes.size());
  stream_.Add(bytes);
  return *this;
}

Sha256Builder& Sha256Builder::AddTokens(std::string_view name, std::span<const int32_t> tokens) {
  AddHeader('t', name, tokens.size_bytes());
  if constexpr (std::endian::native == std::endian::little) {
    stream_.Add(std::as_bytes(tokens));
  } else {
    for (const int32_t token : tokens) {
      stream_.Add(std::span<const std::byte>(LittleEndian(static_cast<uint32_t>(token))).first(sizeof token));
    }
  }
  return *this;
}

}  // namespace holdfast
