// Random weights of every type, a double reference that decodes the file's bytes by itself, and one way to call MatMul:
// for the tests of products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "ops/matmul.h"

namespace holdfast {

inline constexpr DType kAllWeightTypes[] = {DType::kF32,  DType::kF16,  DType::kBf16, DType::kQ8_0,
                                            DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                            DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

std::unique_ptr<ThreadPool> Threads(int n);

// A file's bytes of [rows, cols]: any codes, and small scales of either sign.
std::vector<std::byte> RandomWeights(DType type, int64_t rows, int64_t cols, uint32_t seed);

// The same [rows, cols] in double.
std::vector<double> ReferenceWeights(DType type, const std::vector<std::byte>& data, int64_t rows,
                                     int64_t cols);

// [rows, cols], now and then ten times as large.
std::vector<float> RandomActivations(int64_t rows, int64_t cols, uint32_t seed);

// What int8 blocks of 32 keep of x.
std::vector<double> RoundedActivations(const std::vector<float>& x);

struct MatMulCase {
  DType type;
  int64_t rows, cols;
};

PackedMatrix Pack(const MatMulCase& c, const std::vector<std::byte>& data, bool exact, ThreadPool& pool);

// Rows [first, first + rows) of x times w.
std::vector<float> Multiply(const PackedMatrix& w, const std::vector<float>& x, int64_t first, int64_t rows,
                            Isa isa, ThreadPool& pool, bool two_parts = false);

}  // namespace holdfast
