// A gated product in one pass has the bits of its parts, whatever the rows, the types and the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ops/elementwise.h"
#include "ops/testing_weights.h"

namespace holdfast {
namespace {

struct Mlp {
  PackedMatrix gate, up, down;
  int64_t inputs, width;
  std::vector<float> gate_bias, up_bias;  // empty, or [width]
};

class GatedProducts : public testing::TestWithParam<DType> {
 protected:
  static constexpr int64_t kOutputs = 40;

  Mlp Make(DType in, DType out, int64_t inputs, int64_t width, bool bias) const {
    return Make(in, in, out, inputs, width, bias);
  }
  Mlp Make(DType gate, DType up, DType out, int64_t inputs, int64_t width, bool bias) const {
    Mlp mlp;
    const auto pack = [&](DType type, int64_t rows, int64_t cols, uint32_t seed) {
      return Pack({type, rows, cols}, RandomWeights(type, rows, cols, seed), false, *pool_);
    };
    mlp.gate = pack(gate, width, inputs, 31);
    mlp.up = pack(up, width, inputs, 32);
    mlp.down = pack(out, kOutputs, width, 33);
    mlp.inputs = inputs;
    mlp.width = width;
    for (int64_t i = 0; bias && i < width; ++i) {
      mlp.gate_bias.push_back(static_cast<float>(i % 7) - 3.0f);
      mlp.up_bias.push_back(static_cast<float>(i % 5) * 0.5f);
    }
    return mlp;
  }

  struct Wide {
    Wide(const Mlp& mlp, int64_t rows) : gate(static_cast<size_t>(rows * mlp.width)), up(gate.size()) {
      const auto bias = [](const std::vector<float>& b) { return b.empty() ? nullptr : b.data(); };
      products[0] = {
          .weight = &mlp.gate, .out = gate.data(), .out_stride = mlp.width, .bias = bias(mlp.gate_bias)};
      products[1] = {.weight = &mlp.up, .out = up.data(), .out_stride = mlp.width, .bias = bias(mlp.up_bias)};
    }
    std::vector<float> gate, up;
    Product products[2];
  };

  static std::vector<float> Down(const Mlp& mlp, Activations& hidden, int64_t rows, Isa isa,
                                 ThreadPool& pool) {
    std::vector<float> out(static_cast<size_t>(rows * kOutputs));
    const Product down{.weight = &mlp.down, .out = out.data(), .out_stride = kOutputs};
    MatMul(hidden, {&down, 1}, isa, pool);
    return out;
  }

  std::vector<float> InParts(const Mlp& mlp, const float* x, int64_t rows, Activation f, Isa isa) const {
    Wide wide(mlp, rows);
    Activations activations, hidden;
    activations.Set(x, rows, mlp.inputs, mlp.inputs);
    MatMul(activations, wide.products, isa, *pool_);
    GatedActivation(f, wide.gate.data(), wide.up.data(), rows, mlp.width, mlp.width, isa, *pool_);
    hidden.Set(wide.gate.data(), rows, mlp.width, mlp.width);
    return Down(mlp, hidden, rows, isa, *pool_);
  }

  static std::vector<float> InOne(const Mlp& mlp, const float* x, int64_t rows, Activation f, Isa isa,
                                  Activations& activations, Activations& hidden, ThreadPool& pool) {
    Wide wide(mlp, rows);
    activations.Set(x, rows, mlp.inputs, mlp.inputs);
    GatedMatMul(activations, wide.products[0], wide.products[1], f, mlp.down, hidden, isa, pool);
    return Down(mlp, hidden, rows, isa, pool);
  }

  static void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b, int64_t rows) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
          << rows << " rows: " << i << " is " << a[i] << ", not " << b[i];
    }
  }

  // Memory that one case left behind is the next one's.
  void Compare(const Mlp& mlp, int64_t most, std::initializer_list<int64_t> row_counts) const {
    const auto x = RandomActivations(most, mlp.inputs, 34);
    for (Isa isa : SupportedIsas()) {
      SCOPED_TRACE(IsaName(isa));
      Activations& activations = activations_;
      Activations& hidden = hidden_;
      for (const int64_t rows : row_counts) {
        for (const Activation f : {Activation::kSilu, Activation::kGeluTanh}) {
          ExpectSameBits(InOne(mlp, x.data(), rows, f, isa, activations, hidden, *pool_),
                         InParts(mlp, x.data(), rows, f, isa), rows);
        }
      }
    }
  }

  const std::unique_ptr<ThreadPool> pool_ = Threads(2);
  mutable Activations activations_, hidden_;
};

std::string TypeName(const testing::TestParamInfo<DType>& info) {
  return std::string(GetDTypeTraits(info.param).name);
}

TEST_P(GatedProducts, HaveTheBitsOfTheirParts) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  Compare(Make(GetParam(), GetParam(), block, 3 * block, false), 130,
          {130, 1, 4, 5, 8, 16, 17, 31, 32, 33, 64});
}

TEST_P(GatedProducts, TakeTwoTypes) {
  Compare(Make(GetParam(), DType::kQ4_0, DType::kQ8_0, 256, 64, false), 70, {70, 9, 2});
  Compare(Make(DType::kQ6_K, GetParam(), DType::kQ4_1, 256, 64, true), 70, {70, 9, 2});
}

TEST_P(GatedProducts, DependOnNeitherCompanyNorThreads) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  const Mlp mlp = Make(GetParam(), GetParam(), block, 2 * block, false);
  constexpr int64_t kRows = 70;
  const auto x = RandomActivations(kRows, block, 35);
  const auto one_thread = Threads(1);
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(IsaName(isa));
    const auto run = [&](int64_t first, int64_t rows, ThreadPool& pool) {
      return InOne(mlp, x.data() + first * block, rows, Activation::kSilu, isa, activations_, hidden_, pool);
    };
    const std::vector<float> all = run(0, kRows, *pool_);
    ExpectSameBits(run(0, kRows, *one_thread), all, kRows);
    for (const int64_t r : {0, 1, 15, 16, 63, 69}) {
      const auto at = all.begin() + r * kOutputs;
      ExpectSameBits(run(r, 1, *pool_), std::vector<float>(at, at + kOutputs), 1);
    }
  }
}

TEST_P(GatedProducts, MakeNaNOfWhatIsNotFinite) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  const Mlp mlp = Make(GetParam(), GetParam(), block, block, false);
  constexpr int64_t kRows = 34;
  auto x = RandomActivations(kRows, block, 36);
  x[static_cast<size_t>(3 * block)] = std::numeric_limits<float>::infinity();
  x[static_cast<size_t>(33 * block + 5)] = std::numeric_limits<float>::quiet_NaN();
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(IsaName(isa));
    const auto out = InOne(mlp, x.data(), kRows, Activation::kGeluTanh, isa, activations_, hidden_, *pool_);
    for (int64_t r = 0; r < kRows; ++r) {
      const bool broken = r == 3 || r == 33;
      for (int64_t o = 0; o < kOutputs; ++o) {
        const float value = out[static_cast<size_t>(r * kOutputs + o)];
        EXPECT_EQ(std::isfinite(value), !broken) << "row " << r << ", output " << o << " is " << value;
      }
    }
  }
}

// A server counts its scratch after its largest step.
TEST_P(GatedProducts, TakeNoMoreMemoryForFewerRows) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  const Mlp mlp = Make(GetParam(), GetParam(), block, block, false);
  const auto x = RandomActivations(200, block, 37);
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(IsaName(isa));
    Activations activations, hidden;
    InOne(mlp, x.data(), 200, Activation::kSilu, isa, activations, hidden, *pool_);
    const int64_t bytes = activations.bytes() + hidden.bytes();
    for (const int64_t rows : {199, 100, 33, 32, 17, 16, 5, 4, 1}) {
      InOne(mlp, x.data(), rows, Activation::kSilu, isa, activations, hidden, *pool_);
      EXPECT_EQ(activations.bytes() + hidden.bytes(), bytes) << rows << " rows";
    }
  }
}

// The point of it: of many rows and integer weights no float leaves the scratch.
TEST_P(GatedProducts, LeaveTheFloatsUnwrittenWhereTheyCan) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  const Mlp mlp = Make(GetParam(), GetParam(), block, block, false);
  const auto x = RandomActivations(40, block, 38);
  for (const int64_t rows : {40, 4}) {
    Wide wide(mlp, rows);
    activations_.Set(x.data(), rows, block, block);
    GatedMatMul(activations_, wide.products[0], wide.products[1], Activation::kSilu, mlp.down, hidden_,
                ActiveIsa(), *pool_);
    const bool written = std::any_of(wide.gate.begin(), wide.gate.end(), [](float v) { return v != 0.0f; });
    EXPECT_EQ(written, rows == 4 || !mlp.gate.integer_activations()) << rows << " rows";
  }
}

TEST_P(GatedProducts, AddTheirBiases) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  Compare(Make(GetParam(), GetParam(), 2 * block, block, true), 50, {50, 7});
}

// Rows so wide that their groups are cut into several blocks.
TEST_P(GatedProducts, HaveThemInEveryBlockOfRows) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  Compare(Make(GetParam(), GetParam(), 32768 / block * block, block, false), 90, {90});
}

// What follows may be of another type, floats too, and then of a width that is no whole number of blocks.
TEST_P(GatedProducts, FeedProductsOfOtherTypes) {
  const int64_t block = std::max(32, GetDTypeTraits(GetParam()).block_elements);
  Compare(Make(GetParam(), DType::kF16, block, 48, false), 40, {40, 3});
  Compare(Make(GetParam(), DType::kQ8_0, block, 96, false), 40, {40, 3});
  Compare(Make(GetParam(), DType::kQ6_K, block, 256, false), 40, {40, 3});
}

INSTANTIATE_TEST_SUITE_P(Types, GatedProducts, testing::ValuesIn(kAllWeightTypes), TypeName);

}  // namespace
}  // namespace holdfast
