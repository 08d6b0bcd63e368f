// What of a row transform is compiled per instruction set: signed Walsh-Hadamard blocks over rows of floats.
// Plain declarations only, because per-ISA kernel files include this header.
#pragma once

#include <cstdint>

namespace holdfast {

// One orthonormal map of the values [first, first + size) of a row: each times its factor (a sign over
// sqrt(size)), then the Walsh-Hadamard matrix of `size`, a power of two, in natural (Sylvester) order.
struct HadamardBlock {
  int first;
  int size;
  const float* factors;  // [size]
};

// Results are the same bits on every instruction set: each value is one multiplication and log2(size)
// additions, in one order. Blocks are applied in ascending index by forward, in descending by backward,
// which is forward's transpose.
struct TransformKernels {
  // to[r] = blocks(from[r] - centers[r % heads]) for r in [0, rows); from and to [rows, dim], which may be the
  // same; centers [heads, dim] or null.
  void (*forward)(const HadamardBlock* blocks, int count, const float* from, const float* centers, int heads,
                  int64_t rows, int dim, float* to);
  // x[r] = blocks^T x[r] for r in [0, rows), in place; x [rows, dim].
  void (*backward)(const HadamardBlock* blocks, int count, int64_t rows, int dim, float* x);
};

}  // namespace holdfast
