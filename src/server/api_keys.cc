#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>

namespace holdfast::server {
namespace {

constexpr size_t kMaxCredentials = 4096;  // of Basic, encoded

std::string Hex(const unsigned char* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// The password of `user:password` in base 64; empty where it is none.
std::string PasswordOf(std::string_view credentials) {
  if (credentials.size() % 4 != 0 || credentials.size() > kMaxCredentials) return "";
  std::string decoded(credentials.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                     reinterpret_cast<const unsigned char*>(credentials.data()),
                                     static_cast<int>(credentials.size()));
  if (length < 0) return "";
  size_t end = static_cast<size_t>(length);
  for (size_t i = 0; i < 2 && end > 0 && credentials[credentials.size() - 1 - i] == '='; ++i) --end;
  const size_t colon = decoded.find(':');
  if (colon == std::string::npos || colon >= end) return "";
  return decoded.substr(colon + 1, end - colon - 1);
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  return std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

constexpr std::string_view kBearer = "bearer ", kBasic = "basic ";

std::string KeyOf(std::string_view authorization) {
  const auto after = [&](std::string_view scheme) {
    std::string_view rest = authorization.substr(scheme.size());
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    while (rest.ends_with(' ')) rest.remove_suffix(1);
    return rest;
  };
  if (StartsWithIgnoringCase(authorization, kBearer)) return std::string(after(kBearer));
  if (StartsWithIgnoringCase(authorization, kBasic)) return PasswordOf(after(kBasic));
  return "";
}

}  // namespace

bool IsSentByBrowsers(std::string_view authorization) {
  return StartsWithIgnoringCase(authorization, kBasic);
}

ApiKeys::Digest ApiKeys::DigestOf(std::string_view text) {
  Digest digest = {};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return digest;
}

Result<ApiKeys> ApiKeys::Create(const std::vector<std::string>& keys) {
  ApiKeys result;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string which = "API key " + std::to_string(i + 1);
    if (keys[i].empty()) return InvalidArgument("server: " + which + " is empty");
    const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
    if (!std::all_of(keys[i].begin(), keys[i].end(), printable)) {
      return InvalidArgument("server: " + which + " has a character that is no printable ASCII, or a blank");
    }
    const Digest digest = DigestOf(keys[i]);
    for (const Entry& entry : result.tenants_) {
      if (entry.digest == digest) return InvalidArgument("server: " + which + " was given before");
    }
    const Digest name = DigestOf("holdfast tenant " + keys[i]);
    result.tenants_.push_back({digest, {Hex(name.data(), 16), i == 0}});
  }
  return result;
}

std::optional<Tenant> ApiKeys::Find(std::string_view authorization) const {
  if (open()) return Tenant{};
  const std::string key = KeyOf(authorization);
  const Digest digest = DigestOf(key);
  const Entry* found = nullptr;
  for (const Entry& entry : tenants_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  if (found == nullptr || key.empty()) return std::nullopt;
  return found->tenant;
}

}  // namespace holdfast::server
