#include "ops/testing_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "base/float16.h"

namespace holdfast {
namespace {

void PutF16(uint8_t* p, double value) {
  const uint16_t bits = F32ToF16(static_cast<float>(value));
  std::memcpy(p, &bits, 2);
}
double GetF16(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return F16ToF32(bits);
}

// Where the f16 scales of a block lie; everything else in it may be any byte.
std::vector<int> F16Offsets(DType type) {
  switch (type) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0:
      return {0};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

// Sub-block j's 6-bit scale and minimum, as ggml-quants.c reads them.
void ScaleMin(const uint8_t* q, int j, int& scale, int& minimum) {
  if (j < 4) {
    scale = q[j] & 63;
    minimum = q[j + 4] & 63;
  } else {
    scale = (q[j + 4] & 0xF) | ((q[j - 4] >> 6) << 4);
    minimum = (q[j + 4] >> 4) | ((q[j] >> 6) << 4);
  }
}

void ReferenceSmallBlock(DType type, const uint8_t* b, double* y) {
  const double d = GetF16(b);
  if (type == DType::kQ8_0) {
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<int8_t>(b[2 + i]);
    return;
  }
  const bool has_min = type == DType::kQ4_1 || type == DType::kQ5_1;
  const bool five = type == DType::kQ5_0 || type == DType::kQ5_1;
  const uint8_t* p = b + (has_min ? 4 : 2);
  uint32_t fifth = 0;
  if (five) {
    std::memcpy(&fifth, p, 4);
    p += 4;
  }
  const double zero = has_min ? 0 : five ? 16 : 8;
  const double m = has_min ? GetF16(b + 2) : 0;
  for (int j = 0; j < 16; ++j) {
    const int low = (p[j] & 15) | (five ? static_cast<int>((fifth >> j) & 1) << 4 : 0);
    const int high = (p[j] >> 4) | (five ? static_cast<int>((fifth >> (j + 16)) & 1) << 4 : 0);
    y[j] = d * (low - zero) + m;
    y[j + 16] = d * (high - zero) + m;
  }
}

void ReferenceK45(const uint8_t* b, bool five, double* y) {
  const double d = GetF16(b), dmin = GetF16(b + 2);
  const uint8_t* qh = b + 16;
  const uint8_t* q = b + (five ? 48 : 16);
  for (int j = 0; j < 8; ++j) {
    int scale, minimum;
    ScaleMin(b + 4, j, scale, minimum);
    for (int l = 0; l < 32; ++l) {
      int code = j % 2 == 0 ? q[32 * (j / 2) + l] & 15 : q[32 * (j / 2) + l] >> 4;
      if (five && (qh[l] & (1 << j))) code += 16;
      y[32 * j + l] = d * scale * code - dmin * minimum;
    }
  }
}

void ReferenceQ6K(const uint8_t* b, double* y) {
  const double d = GetF16(b + 208);
  for (int n = 0; n < 2; ++n) {
    const uint8_t* ql = b + 64 * n;
    const uint8_t* qh = b + 128 + 32 * n;
    const auto* sc = reinterpret_cast<const int8_t*>(b + 192 + 8 * n);
    for (int l = 0; l < 32; ++l) {
      const int is = l / 16;
      y[128 * n + l] = d * sc[is] * (((ql[l] & 15) | ((qh[l] & 3) << 4)) - 32);
      y[128 * n + l + 32] = d * sc[is + 2] * (((ql[l + 32] & 15) | (((qh[l] >> 2) & 3) << 4)) - 32);
      y[128 * n + l + 64] = d * sc[is + 4] * (((ql[l] >> 4) | (((qh[l] >> 4) & 3) << 4)) - 32);
      y[128 * n + l + 96] = d * sc[is + 6] * (((ql[l + 32] >> 4) | (((qh[l] >> 6) & 3) << 4)) - 32);
    }
  }
}

}  // namespace

std::unique_ptr<ThreadPool> Threads(int n) {
  return std::move(ThreadPool::Create(n)).value();
}

std::vector<std::byte> RandomWeights(DType type, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * RowBytesOf(type, cols)));
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng());
  std::normal_distribution<double> normal(0.0, 0.05);
  const DTypeTraits& traits = GetDTypeTraits(type);
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(traits.block_bytes)) {
    uint8_t* p = bytes.data() + at;
    const auto value = static_cast<float>(normal(rng));
    if (type == DType::kF32) std::memcpy(p, &value, 4);
    if (type == DType::kF16) PutF16(p, value);
    if (type == DType::kBf16) {
      const uint16_t bits = F32ToBf16(value);
      std::memcpy(p, &bits, 2);
    }
    for (int offset : F16Offsets(type)) PutF16(p + offset, normal(rng) / 8);
  }
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<double> ReferenceWeights(DType type, const std::vector<std::byte>& data, int64_t rows,
                                     int64_t cols) {
  const DTypeTraits& traits = GetDTypeTraits(type);
  std::vector<double> out(static_cast<size_t>(rows * cols));
  const auto* p = reinterpret_cast<const uint8_t*>(data.data());
  for (size_t at = 0; at < out.size();
       at += static_cast<size_t>(traits.block_elements), p += traits.block_bytes) {
    double* y = out.data() + at;
    float f;
    uint16_t h;
    switch (type) {
      case DType::kF32:
        std::memcpy(&f, p, 4);
        *y = f;
        break;
      case DType::kF16:
        *y = GetF16(p);
        break;
      case DType::kBf16:
        std::memcpy(&h, p, 2);
        *y = Bf16ToF32(h);
        break;
      case DType::kQ4_K:
        ReferenceK45(p, false, y);
        break;
      case DType::kQ5_K:
        ReferenceK45(p, true, y);
        break;
      case DType::kQ6_K:
        ReferenceQ6K(p, y);
        break;
      default:
        ReferenceSmallBlock(type, p, y);
    }
  }
  return out;
}

std::vector<float> RandomActivations(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (float& v : x) v = normal(rng) * (rng() % 50 == 0 ? 10.0f : 1.0f);
  return x;
}

std::vector<double> RoundedActivations(const std::vector<float>& x) {
  std::vector<double> out(x.size());
  for (size_t b = 0; b < x.size(); b += 32) {
    float absmax = 0;
    for (size_t i = b; i < b + 32; ++i) absmax = std::max(absmax, std::fabs(x[i]));
    for (size_t i = b; i < b + 32 && absmax > 0; ++i) {
      out[i] = std::nearbyint(x[i] * (127.0f / absmax)) * static_cast<double>(absmax / 127.0f);
    }
  }
  return out;
}

PackedMatrix Pack(const MatMulCase& c, const std::vector<std::byte>& data, bool exact, ThreadPool& pool) {
  auto packed = PackedMatrix::Pack(c.type, data, c.rows, c.cols, exact, pool);
  EXPECT_TRUE(packed.ok()) << packed.status().message();
  return std::move(packed).value();
}

std::vector<float> Multiply(const PackedMatrix& w, const std::vector<float>& x, int64_t first, int64_t rows,
                            Isa isa, ThreadPool& pool, bool two_parts) {
  Activations activations;
  activations.Set(x.data() + first * w.cols(), rows, w.cols(), w.cols());
  std::vector<float> out(static_cast<size_t>(rows * w.rows()), -77.0f);
  const Product product{.weight = &w, .out = out.data(), .out_stride = w.rows(), .two_parts = two_parts};
  MatMul(activations, {&product, 1}, isa, pool);
  return out;
}

}  // namespace holdfast
