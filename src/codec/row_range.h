// The range of a row's values: what an encoder checks before it writes.
#pragma once

#include <cmath>

namespace holdfast {

// Index of the first value that is not within [-limit, limit] (a NaN is not), or -1. No early exit in the
// common case, so that the compiler may use vectors.
inline int FirstOutside(const float* row, int dim, float limit) {
  int outside = 0;
  for (int d = 0; d < dim; ++d) outside |= static_cast<int>(!(std::fabs(row[d]) <= limit));
  if (outside == 0) return -1;
  int d = 0;
  while (std::fabs(row[d]) <= limit) ++d;
  return d;
}

// Largest magnitude of a row of finite values.
inline float AbsMax(const float* row, int dim) {
  float largest = 0.0f;
  for (int d = 0; d < dim; ++d) largest = std::fmax(largest, std::fabs(row[d]));
  return largest;
}

}  // namespace holdfast
