// The table that the row-wise kernels of each instruction set export. One row a call.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr int kMostRotaryPairs = 2048;  // of a head

struct ElementwiseKernels {
  // out = x * weight / sqrt(mean(x^2) + eps), or out += that.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out, bool accumulate);
  // gate = f(gate) * up
  void (*gated_silu)(float* gate, const float* up, int64_t dim);
  void (*gated_gelu_tanh)(float* gate, const float* up, int64_t dim);
  // x [heads][head_dim], the first 2 * pairs of each head rotated; angles [2][pairs].
  void (*rotate_halves)(float* x, int64_t heads, int64_t head_dim, int64_t pairs, const float* angles);
  // Pairs are neighbours on the way in and lie across the halves afterwards, as rotate_halves has them.
  void (*rotate_interleaved)(float* x, int64_t heads, int64_t head_dim, int64_t pairs, const float* angles);
};

}  // namespace holdfast
