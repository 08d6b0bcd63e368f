// HOLDFAST_FORCE_ISA for the length of a test; what it was comes back after it.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace holdfast {

class ForcedIsa {
 public:
  // name: null for a process whose user forces none.
  explicit ForcedIsa(const char* name) {
    if (const char* before = std::getenv(kVariable)) before_ = before;
    Set(name);
  }
  ~ForcedIsa() { Set(before_ ? before_->c_str() : nullptr); }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;

 private:
  static constexpr const char* kVariable = "HOLDFAST_FORCE_ISA";

  static void Set(const char* name) {
    if (name != nullptr) {
      setenv(kVariable, name, 1);
    } else {
      unsetenv(kVariable);
    }
  }

  std::optional<std::string> before_;
};

}  // namespace holdfast
