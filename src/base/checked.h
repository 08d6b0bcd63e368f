// Arithmetic on sizes that come from files, packets and configurations: overflow is an answer, not a wrap.
#pragma once

#include <cstdint>
#include <optional>

namespace holdfast {

// a + b, a * b; nullopt where the result does not fit.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// Rounding of counts that are already known to be small. REQUIRES a >= 0, b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
constexpr int64_t RoundUp(int64_t a, int64_t b) {
  return CeilDiv(a, b) * b;
}

}  // namespace holdfast
