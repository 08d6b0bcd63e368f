#include "codec/transform.h"

#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(TransformKernels, kTransformKernels)

namespace {

constexpr int kStages = 2;  // the block at the start of the values, the one at their end
constexpr int kSizes = 11;  // 1 to 1024
static_assert(1 << (kSizes - 1) == kMaxDim);

// Part of the format of stored rows.
constexpr uint64_t kKeySeed = 0x686f6c6466617374;    // "holdfast"
constexpr uint64_t kValueSeed = 0x74736166646c6f68;  // and backwards

// splitmix64 (Steele, Lea, Flood 2014).
uint64_t NextWord(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Factors of every size: sign / sqrt(size).
struct FactorTable {
  std::array<std::vector<float>, kSizes> of_size;
};

using SideFactors = std::array<FactorTable, kStages>;

SideFactors MakeFactors(uint64_t seed) {
  SideFactors side;
  uint64_t state = seed;
  for (FactorTable& stage : side) {
    std::array<uint64_t, kMaxDim / 64> words;
    for (uint64_t& word : words) word = NextWord(&state);
    for (size_t log = 0; log < kSizes; ++log) {
      const auto magnitude = static_cast<float>(1.0 / std::sqrt(static_cast<double>(1 << log)));
      std::vector<float>& factors = stage.of_size[log];
      factors.resize(size_t{1} << log);
      for (size_t i = 0; i < factors.size(); ++i) {
        factors[i] = (words[i / 64] >> (i % 64) & 1) != 0 ? -magnitude : magnitude;
      }
    }
  }
  return side;
}

const SideFactors& FactorsOf(RowSide side) {
  static const std::array<SideFactors, 2> sides = {MakeFactors(kKeySeed), MakeFactors(kValueSeed)};
  return sides[static_cast<size_t>(side)];
}

const TransformKernels& Kernels(Isa isa) {
  return HOLDFAST_SELECT_KERNELS(isa, kTransformKernels);
}

}  // namespace

RowTransform::RowTransform(const RowTransformSpec& spec) : spec_(spec) {
  if (!spec.rotate) return;
  AddBlocks(0, output_dim());
  output_count_ = count_;
  if (spec.prefix > 0 && spec.prefix < spec.dim) AddBlocks(spec.prefix, spec.dim - spec.prefix);
}

// The largest power of two that fits, at the start of the values and, where it leaves some out, at their end.
void RowTransform::AddBlocks(int first, int dim) {
  const auto size = static_cast<int>(std::bit_floor(static_cast<unsigned>(dim)));
  const auto log = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(size)));
  const SideFactors& factors = FactorsOf(spec_.side);
  blocks_[count_++] = {first, size, factors[0].of_size[log].data()};
  if (size < dim) blocks_[count_++] = {first + dim - size, size, factors[1].of_size[log].data()};
}

void RowTransform::ForwardRows(Isa isa, const float* rows, int64_t tokens, float* to) const {
  Kernels(isa).forward(blocks_, count_, rows, spec_.center, spec_.heads, tokens * spec_.heads, spec_.dim, to);
}

void RowTransform::RotateQueries(Isa isa, const float* q, int64_t rows, float* to) const {
  Kernels(isa).forward(blocks_, count_, q, nullptr, 1, rows, spec_.dim, to);
}

void RowTransform::RotateOutputsBack(Isa isa, int64_t rows, float* out) const {
  Kernels(isa).backward(blocks_, output_count_, rows, output_dim(), out);
}

void RowTransform::RotatedCenters(Isa isa, float* to) const {
  const int dim = output_dim();
  for (int head = 0; head < spec_.heads; ++head) {
    Kernels(isa).forward(blocks_, output_count_, spec_.center + head * spec_.dim, nullptr, 1, 1, dim,
                         to + head * dim);
  }
}

}  // namespace holdfast
