#include "ops/rope.h"

#include <cassert>
#include <cmath>
#include <string>

#include "ops/kernels/elementwise_kernels.h"
#include "ops/row_tasks.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(ElementwiseKernels, kElementwiseKernels)

namespace {

constexpr double kTwoPi = 6.283185307179586476925;

Status CheckScaling(const RopeScaling& s) {
  if (s.kind == RopeScaling::Kind::kNone) return OkStatus();
  if (!(s.factor > 0) || !std::isfinite(s.factor)) {
    return InvalidArgument("rope scaling: factor " + std::to_string(s.factor) +
                           " must be positive and finite");
  }
  if (s.kind == RopeScaling::Kind::kLinear) return OkStatus();
  if (!(s.low_freq_factor > 0) || !(s.high_freq_factor > s.low_freq_factor) ||
      !std::isfinite(s.high_freq_factor)) {
    return InvalidArgument("rope scaling: low_freq_factor " + std::to_string(s.low_freq_factor) +
                           " must be positive and below high_freq_factor " +
                           std::to_string(s.high_freq_factor));
  }
  if (s.original_max_position < 1) {
    return InvalidArgument("rope scaling: original_max_position " + std::to_string(s.original_max_position) +
                           " must be at least 1");
  }
  return OkStatus();
}

// Llama 3.1's rule: short wavelengths keep their frequency, long ones are divided, those between are blended.
double ScaleLlama3(double frequency, const RopeScaling& s) {
  const double turns =
      static_cast<double>(s.original_max_position) * frequency / kTwoPi;  // in the original context
  if (turns > s.high_freq_factor) return frequency;
  if (turns < s.low_freq_factor) return frequency / s.factor;
  const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

}  // namespace

Result<Rope> Rope::Create(int head_dim, int rotary_dim, double base, RopePairing pairing,
                          const RopeScaling& scaling, std::span<const float> freq_factors) {
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > head_dim) {
    return InvalidArgument("rope: rotary_dim " + std::to_string(rotary_dim) +
                           " must be even and within 2 to head_dim " + std::to_string(head_dim));
  }
  if (rotary_dim / 2 > kMostRotaryPairs) {
    return InvalidArgument("rope: rotary_dim " + std::to_string(rotary_dim) + " is past " +
                           std::to_string(2 * kMostRotaryPairs));
  }
  if (!(base > 0) || !std::isfinite(base)) {
    return InvalidArgument("rope: base " + std::to_string(base) + " must be positive and finite");
  }
  const auto pairs = static_cast<size_t>(rotary_dim / 2);
  if (!freq_factors.empty() && freq_factors.size() != pairs) {
    return InvalidArgument("rope: " + std::to_string(freq_factors.size()) + " frequency factors, needs " +
                           std::to_string(pairs));
  }
  if (Status status = CheckScaling(scaling); !status.ok()) return status;
  Rope rope;
  rope.head_dim_ = head_dim;
  rope.rotary_dim_ = rotary_dim;
  rope.pairing_ = pairing;
  rope.inverse_frequency_.resize(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(base, -2.0 * static_cast<double>(i) / rotary_dim);
    if (scaling.kind == RopeScaling::Kind::kLinear) frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::kLlama3) frequency = ScaleLlama3(frequency, scaling);
    if (!freq_factors.empty()) {
      const double factor = freq_factors[i];
      if (!(factor > 0) || !std::isfinite(factor)) {
        return InvalidArgument("rope: frequency factor " + std::to_string(i) + " is " +
                               std::to_string(factor) + ", must be positive and finite");
      }
      frequency /= factor;
    }
    rope.inverse_frequency_[i] = frequency;
  }
  return rope;
}

void Rope::Fill(std::span<const int64_t> positions, RopeTable& table, ThreadPool& pool) const {
  const size_t pairs = inverse_frequency_.size();
  table.tokens_ = static_cast<int64_t>(positions.size());
  table.values_.resize(positions.size() * 2 * pairs);
  // A sine and a cosine in double cost as much as some fifty simple values.
  ForEachRow(table.tokens_, 50 * static_cast<int64_t>(pairs), pool, [&](int64_t t) {
    float* row = table.values_.data() + static_cast<size_t>(t) * 2 * pairs;
    const auto position = static_cast<double>(positions[static_cast<size_t>(t)]);
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = position * inverse_frequency_[i];
      row[i] = static_cast<float>(std::cos(angle));
      row[pairs + i] = static_cast<float>(std::sin(angle));
    }
  });
}

void Rope::Apply(float* x, int64_t tokens, int64_t heads, int64_t token_stride, const RopeTable& table,
                 Isa isa, ThreadPool& pool) const {
  assert(tokens == table.tokens());
  const ElementwiseKernels& kernels = HOLDFAST_SELECT_KERNELS(isa, kElementwiseKernels);
  const auto rotate = pairing_ == RopePairing::kHalves ? kernels.rotate_halves : kernels.rotate_interleaved;
  ForEachRow(tokens, heads * rotary_dim_, pool, [&](int64_t t) {
    rotate(x + t * token_stride, heads, head_dim_, rotary_dim_ / 2, table.values_.data() + t * rotary_dim_);
  });
}

void Rope::Apply(float* x, int64_t tokens, int64_t heads, int64_t token_stride,
                 std::span<const int64_t> positions, Isa isa, ThreadPool& pool) const {
  RopeTable table;
  Fill(positions, table, pool);
  Apply(x, tokens, heads, token_stride, table, isa, pool);
}

}  // namespace holdfast
