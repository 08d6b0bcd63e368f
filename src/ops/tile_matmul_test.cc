// Tiles are only another way to the vectors' bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/testing_weights.h"

namespace holdfast {
namespace {

class TileProducts : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const std::vector<Isa> isas = SupportedIsas();
    if (std::find(isas.begin(), isas.end(), Isa::kAmx) == isas.end()) {
      GTEST_SKIP() << "this processor has no int8 tiles, or may not use them";
    }
  }

  // The bits, zeros' signs included. Of NaN only that both are.
  static void ExpectSame(const std::vector<float>& tiles, const std::vector<float>& vectors,
                         const std::string& what) {
    ASSERT_EQ(tiles.size(), vectors.size());
    for (size_t i = 0; i < tiles.size(); ++i) {
      const bool same = std::bit_cast<uint32_t>(tiles[i]) == std::bit_cast<uint32_t>(vectors[i]);
      ASSERT_TRUE(same || (tiles[i] != tiles[i] && vectors[i] != vectors[i]))
          << what << ": " << i << " is " << tiles[i] << ", not " << vectors[i];
    }
  }

  // Both ways for some numbers of rows, of x [most, cols].
  void Compare(const PackedMatrix& w, const std::vector<float>& x,
               std::initializer_list<int64_t> row_counts) {
    for (int64_t rows : row_counts) {
      for (bool two_parts : {false, true}) {
        ExpectSame(Multiply(w, x, 0, rows, Isa::kAmx, *pool_, two_parts),
                   Multiply(w, x, 0, rows, Isa::kAvx512, *pool_, two_parts),
                   std::to_string(rows) + " rows, two parts " + std::to_string(two_parts));
      }
    }
  }

  const std::unique_ptr<ThreadPool> pool_ = Threads(2);
};

std::string TypeName(const testing::TestParamInfo<DType>& info) {
  return std::string(GetDTypeTraits(info.param).name);
}

TEST_P(TileProducts, HaveTheVectorsBitsWhateverIsLeftOver) {
  // Odd and even numbers of panels and of blocks; last panels that are full, nearly empty, nearly full.
  for (auto [outputs, cols] : {std::pair<int64_t, int64_t>{16, 256},
                               {33, 512},
                               {47, 1792},
                               {160, 768},
                               {32, 32},
                               {32, 64},
                               {48, 96},
                               {32, 224},
                               {32, 352}}) {
    if (cols % GetDTypeTraits(GetParam()).block_elements != 0) continue;
    SCOPED_TRACE(std::to_string(outputs) + " x " + std::to_string(cols));
    const MatMulCase c{GetParam(), outputs, cols};
    const PackedMatrix w = Pack(c, RandomWeights(c.type, outputs, cols, 16), false, *pool_);
    Compare(w, RandomActivations(130, cols, 17), {16, 24, 25, 32, 41, 130});
  }
}

// Rows so wide that their groups are cut into several blocks, of which only the first starts at row 0.
TEST_P(TileProducts, HaveTheVectorsBitsInEveryBlockOfRows) {
  const MatMulCase c{GetParam(), 35, 8192};
  const PackedMatrix w = Pack(c, RandomWeights(c.type, c.rows, c.cols, 18), false, *pool_);
  Compare(w, RandomActivations(150, c.cols, 19), {73, 150});
}

// A bias and a residual, strides of its own, beside a product in two parts, with memory that a wider product left behind.
TEST_P(TileProducts, AddAsTheVectorsDo) {
  const MatMulCase wide{GetParam(), 16, 1024}, narrow{GetParam(), 45, 512};
  const PackedMatrix a = Pack(wide, RandomWeights(wide.type, wide.rows, wide.cols, 20), false, *pool_);
  const PackedMatrix b =
      Pack(narrow, RandomWeights(narrow.type, narrow.rows, narrow.cols, 21), false, *pool_);
  constexpr int64_t kRows = 50, kStride = 60;
  const auto x = RandomActivations(kRows, 1024, 22);
  std::vector<float> bias(45);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) - 7.5f;
  const auto run = [&](Isa isa) {
    Activations activations;
    std::vector<float> out(kRows * kStride, 5.0f), two(kRows * 45), first(kRows * 16);
    activations.Set(x.data(), kRows, 1024, 1024);
    const Product before{.weight = &a, .out = first.data(), .out_stride = 16};
    MatMul(activations, {&before, 1}, isa, *pool_);
    activations.Set(x.data(), kRows, 512, 1024);
    const Product products[] = {
        {.weight = &b, .out = out.data(), .out_stride = kStride, .bias = bias.data(), .accumulate = true},
        {.weight = &b, .out = two.data(), .out_stride = 45, .two_parts = true}};
    MatMul(activations, products, isa, *pool_);
    out.insert(out.end(), two.begin(), two.end());
    out.insert(out.end(), first.begin(), first.end());
    return out;
  };
  ExpectSame(run(Isa::kAmx), run(Isa::kAvx512), "sums");
}

// Weights that no file should have, and inputs that underflow: the same infinities, NaN and zeros.
TEST_P(TileProducts, AgreeOnInfiniteScalesAndOnTheSignOfZero) {
  const MatMulCase c{GetParam(), 32, 256};
  auto data = RandomWeights(c.type, c.rows, c.cols, 23);
  const auto block = static_cast<size_t>(GetDTypeTraits(c.type).block_bytes);
  const uint16_t scales[] = {0x7c00, 0xfc00, 0x8000, 0x8001};  // infinities, -0, the least negative
  for (size_t b = 0; b * block < data.size(); ++b) {
    // Where d lies: in front, of q6_K at the end. (Of float types this is an element.)
    const size_t at = b * block + (c.type == DType::kQ6_K ? block - 2 : 0);
    if (b % 3 != 0 && block >= sizeof(uint16_t))
      std::memcpy(data.data() + at, &scales[b % 4], sizeof(uint16_t));
  }
  const PackedMatrix w = Pack(c, data, false, *pool_);
  auto x = RandomActivations(48, c.cols, 24);
  for (size_t i = 0; i < x.size() / 2; ++i) x[i] *= 1e-36f;
  Compare(w, x, {48});
}

INSTANTIATE_TEST_SUITE_P(Types, TileProducts, testing::ValuesIn(kAllWeightTypes), TypeName);

}  // namespace
}  // namespace holdfast
