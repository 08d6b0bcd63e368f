// Who a request comes from: a tenant for each API key.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast::server {

struct Tenant {
  std::string name_space;   // shares prefixes with itself alone; says nothing of the key
  bool is_operator = true;  // may read what concerns all tenants
};

// Whether an Authorization header is one that a browser sends by itself once it was given a password, whichever page asks.
bool IsSentByBrowsers(std::string_view authorization);

// Immutable, thread-safe. Only digests of the keys are kept.
class ApiKeys {
 public:
  // Errors: kInvalidArgument (an empty key, one with blanks or control characters, one that is there twice;
  // the key itself is not in the message).
  static Result<ApiKeys> Create(const std::vector<std::string>& keys);

  bool open() const { return tenants_.empty(); }  // no keys: everybody is the one tenant and its operator
  // Of an Authorization header: `Bearer KEY`, or `Basic` with the key as password, which is what a browser
  // can send. In time that does not depend on how much of a key is right.
  std::optional<Tenant> Find(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    Tenant tenant;
  };
  static Digest DigestOf(std::string_view text);

  std::vector<Entry> tenants_;
};

}  // namespace holdfast::server
