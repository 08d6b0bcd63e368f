// Products against a double reference that decodes the file's bytes by itself.
#include "ops/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/testing_weights.h"

namespace holdfast {
namespace {

using Case = MatMulCase;

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (DType type : kAllWeightTypes) {
    const int64_t block = std::max(32, GetDTypeTraits(type).block_elements);
    for (auto [rows, cols] :
         {std::pair<int64_t, int64_t>{1, block}, {16, block}, {37, 2 * block}, {100, 1536}}) {
      cases.push_back({type, rows, cols});
    }
    if (block == 32) cases.push_back({type, 17, 576});
  }
  return cases;
}

class MatMulTypes : public testing::TestWithParam<Case> {};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return std::string(GetDTypeTraits(info.param.type).name) + "_" + std::to_string(info.param.rows) + "x" +
         std::to_string(info.param.cols);
}

TEST_P(MatMulTypes, EqualsTheDoubleReferenceOnEveryInstructionSet) {
  const Case c = GetParam();
  const auto pool = Threads(2);
  const auto data = RandomWeights(c.type, c.rows, c.cols, 1);
  const auto weights = ReferenceWeights(c.type, data, c.rows, c.cols);
  constexpr int64_t kRows = 21;
  const auto x = RandomActivations(kRows, c.cols, 2);
  for (bool exact : {false, true}) {
    const PackedMatrix packed = Pack(c, data, exact, *pool);
    EXPECT_EQ(packed.integer_activations(), !exact && c.type >= DType::kQ8_0);
    const std::vector<double> seen =
        packed.integer_activations() ? RoundedActivations(x) : std::vector<double>(x.begin(), x.end());
    for (Isa isa : SupportedIsas()) {
      const auto out = Multiply(packed, x, 0, kRows, isa, *pool);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t o = 0; o < c.rows; ++o) {
          double expected = 0, magnitude = 0;
          for (int64_t k = 0; k < c.cols; ++k) {
            const double term =
                seen[static_cast<size_t>(r * c.cols + k)] * weights[static_cast<size_t>(o * c.cols + k)];
            expected += term;
            magnitude += std::fabs(term);
          }
          ASSERT_NEAR(out[static_cast<size_t>(r * c.rows + o)], expected, 1e-6 * magnitude + 1e-12)
              << IsaName(isa) << " exact " << exact << " row " << r << " output " << o;
        }
      }
    }
  }
}

TEST_P(MatMulTypes, GivesARowTheSameBitsInAnyCompanyAndOnAnyThreads) {
  const Case c = GetParam();
  const auto one = Threads(1), two = Threads(2);
  const auto data = RandomWeights(c.type, c.rows, c.cols, 3);
  constexpr int64_t kRows = 70;
  const auto x = RandomActivations(kRows, c.cols, 4);
  const PackedMatrix packed = Pack(c, data, false, *two);
  for (Isa isa : SupportedIsas()) {
    for (bool two_parts : {false, true}) {
      const auto all = Multiply(packed, x, 0, kRows, isa, *two, two_parts);
      EXPECT_EQ(all, Multiply(packed, x, 0, kRows, isa, *one, two_parts)) << IsaName(isa);
      for (int64_t rows : {1, 2, 3, 5, 9, 17}) {
        for (int64_t first = 0; first + rows <= kRows; first += 23) {
          const auto some = Multiply(packed, x, first, rows, isa, *two, two_parts);
          const std::vector<float> expected(all.begin() + first * c.rows,
                                            all.begin() + (first + rows) * c.rows);
          ASSERT_EQ(some, expected) << IsaName(isa) << " rows " << first << " + " << rows << " two parts "
                                    << two_parts;
        }
      }
    }
  }
}

// One Set, and products that come one after the other and want other numbers of it each.
TEST(Activations, ServeEveryTypeInAnyOrder) {
  const auto pool = Threads(2);
  constexpr int64_t kRows = 21, kCols = 512, kOutputs = 24;
  const auto x = RandomActivations(kRows, kCols, 40);
  std::vector<PackedMatrix> weights;
  for (DType type : kAllWeightTypes) {
    weights.push_back(Pack({type, kOutputs, kCols}, RandomWeights(type, kOutputs, kCols, 41), false, *pool));
  }
  for (Isa isa : SupportedIsas()) {
    for (const bool two_parts_first : {false, true}) {
      Activations activations;
      activations.Set(x.data(), kRows, kCols, kCols);
      for (size_t i = 0; i < weights.size(); ++i) {
        const bool two_parts = (i % 2 == 0) == two_parts_first;
        std::vector<float> out(kRows * kOutputs);
        const Product product{
            .weight = &weights[i], .out = out.data(), .out_stride = kOutputs, .two_parts = two_parts};
        MatMul(activations, {&product, 1}, isa, *pool);
        EXPECT_EQ(out, Multiply(weights[i], x, 0, kRows, isa, *pool, two_parts))
            << IsaName(isa) << " " << GetDTypeTraits(kAllWeightTypes[i]).name << " two parts " << two_parts;
      }
    }
  }
}

// 254 times finer codes: what rounding costs must shrink by about as much (half of that is left to chance).
TEST_P(MatMulTypes, InTwoPartsIsAHundredTimesCloserToTheUnroundedInput) {
  const Case c = GetParam();
  const auto pool = Threads(2);
  const auto data = RandomWeights(c.type, c.rows, c.cols, 12);
  const auto weights = ReferenceWeights(c.type, data, c.rows, c.cols);
  const PackedMatrix packed = Pack(c, data, false, *pool);
  constexpr int64_t kRows = 70;
  const auto x = RandomActivations(kRows, c.cols, 13);
  if (!packed.integer_activations()) {  // float products round nothing
    EXPECT_EQ(Multiply(packed, x, 0, kRows, ActiveIsa(), *pool, true),
              Multiply(packed, x, 0, kRows, ActiveIsa(), *pool, false));
    return;
  }
  for (Isa isa : SupportedIsas()) {
    double error[2] = {0, 0};
    for (bool two_parts : {false, true}) {
      const auto out = Multiply(packed, x, 0, kRows, isa, *pool, two_parts);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t o = 0; o < c.rows; ++o) {
          double expected = 0;
          for (int64_t k = 0; k < c.cols; ++k) {
            expected += static_cast<double>(x[static_cast<size_t>(r * c.cols + k)]) *
                        weights[static_cast<size_t>(o * c.cols + k)];
          }
          const double difference = static_cast<double>(out[static_cast<size_t>(r * c.rows + o)]) - expected;
          error[two_parts ? 1 : 0] += difference * difference;
        }
      }
    }
    EXPECT_LT(std::sqrt(error[1]), std::sqrt(error[0]) / 100) << IsaName(isa);
  }
}

TEST_P(MatMulTypes, LooksUpARowExactlyAsTheFileHasIt) {
  const Case c = GetParam();
  const auto pool = Threads(2);
  const auto data = RandomWeights(c.type, c.rows, c.cols, 5);
  const auto weights = ReferenceWeights(c.type, data, c.rows, c.cols);
  for (bool exact : {false, true}) {
    const PackedMatrix packed = Pack(c, data, exact, *pool);
    std::vector<float> row(static_cast<size_t>(c.cols));
    for (int64_t r = 0; r < c.rows; ++r) {
      packed.DequantizeRow(r, row.data());
      for (int64_t k = 0; k < c.cols; ++k) {
        const double expected = weights[static_cast<size_t>(r * c.cols + k)];
        ASSERT_NEAR(row[static_cast<size_t>(k)], expected, 4e-7 * std::fabs(expected) + 2e-7)
            << r << " " << k;
      }
    }
  }
}

TEST_P(MatMulTypes, IsResidentInLittleMoreThanTheFilesBytes) {
  Case c = GetParam();
  const auto pool = Threads(2);
  c.rows = 64;
  const auto data = RandomWeights(c.type, c.rows, c.cols, 6);
  const PackedMatrix packed = Pack(c, data, false, *pool);
  const double file = static_cast<double>(data.size());
  EXPECT_LE(static_cast<double>(packed.bytes()), 1.03 * file + 64 * 4);
}

INSTANTIATE_TEST_SUITE_P(Types, MatMulTypes, testing::ValuesIn(AllCases()), CaseName);

TEST(MatMul, SharesOneCallBetweenProductsOfDifferentTypes) {
  const auto pool = Threads(2);
  const Case cases[] = {
      {DType::kQ4_1, 192, 512}, {DType::kF16, 33, 512}, {DType::kQ6_K, 576, 512}, {DType::kQ8_0, 5, 512}};
  constexpr int64_t kRows = 43;
  const auto x = RandomActivations(kRows, 512, 1);
  std::vector<PackedMatrix> weights;
  std::vector<std::vector<float>> outs;
  std::vector<Product> products;
  for (const Case& c : cases)
    weights.push_back(Pack(c, RandomWeights(c.type, c.rows, c.cols, 7), false, *pool));
  for (const PackedMatrix& w : weights) {
    outs.emplace_back(static_cast<size_t>(kRows * w.rows()));
    products.push_back({.weight = &w, .out = outs.back().data(), .out_stride = w.rows()});
  }
  Activations activations;
  activations.Set(x.data(), kRows, 512, 512);
  MatMul(activations, products, ActiveIsa(), *pool);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(outs[i], Multiply(weights[i], x, 0, kRows, ActiveIsa(), *pool)) << i;
  }
}

TEST(MatMul, TakesInputInOneAndInTwoPartsInTheSameCall) {
  const auto pool = Threads(2);
  const Case c{DType::kQ4_1, 33, 64};
  const PackedMatrix w = Pack(c, RandomWeights(c.type, c.rows, c.cols, 14), false, *pool);
  const auto x = RandomActivations(5, 64, 15);
  std::vector<float> one(5 * 33), two(5 * 33);
  const Product products[] = {
      {.weight = &w, .out = one.data(), .out_stride = 33},
      {.weight = &w, .out = two.data(), .out_stride = 33, .two_parts = true},
  };
  Activations activations;
  activations.Set(x.data(), 5, 64, 64);
  MatMul(activations, {products, 1}, ActiveIsa(), *pool);  // then again, with a second part to add
  MatMul(activations, products, ActiveIsa(), *pool);
  EXPECT_EQ(one, Multiply(w, x, 0, 5, ActiveIsa(), *pool));
  EXPECT_EQ(two, Multiply(w, x, 0, 5, ActiveIsa(), *pool, true));
  EXPECT_NE(one, two);
}

TEST(MatMul, AddsBiasThenResidualAndTouchesNothingElse) {
  const auto pool = Threads(2);
  for (DType type : {DType::kQ5_1, DType::kF32}) {
    const Case c{type, 21, 64};
    const PackedMatrix w = Pack(c, RandomWeights(c.type, c.rows, c.cols, 8), false, *pool);
    for (size_t rows : {size_t{3}, size_t{37}}) {
      const auto n = static_cast<int64_t>(rows);
      const auto x = RandomActivations(n, 64, 9);
      const auto plain = Multiply(w, x, 0, n, ActiveIsa(), *pool);
      std::vector<float> bias(21), out(rows * 30, 5.0f);
      for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) - 7.5f;
      Activations activations;
      activations.Set(x.data(), n, 64, 64);
      const Product product{
          .weight = &w, .out = out.data(), .out_stride = 30, .bias = bias.data(), .accumulate = true};
      MatMul(activations, {&product, 1}, ActiveIsa(), *pool);
      for (size_t r = 0; r < rows; ++r) {
        for (size_t o = 0; o < 30; ++o) {
          const float expected = o < 21 ? 5.0f + (plain[r * 21 + o] + bias[o]) : 5.0f;
          ASSERT_EQ(out[r * 30 + o], expected) << r << " " << o;
        }
      }
    }
  }
}

TEST(MatMul, ReadsRowsThatLieApart) {
  const auto pool = Threads(2);
  const Case c{DType::kQ4_0, 16, 32};
  const PackedMatrix w = Pack(c, RandomWeights(c.type, c.rows, c.cols, 8), false, *pool);
  const auto x = RandomActivations(2, 40, 9);
  Activations activations;
  activations.Set(x.data(), 2, 32, 40);
  std::vector<float> out(32);
  const Product product{.weight = &w, .out = out.data(), .out_stride = 16};
  MatMul(activations, {&product, 1}, ActiveIsa(), *pool);
  const std::vector<float> second(x.begin() + 40, x.begin() + 72);
  const auto alone = Multiply(w, second, 0, 1, ActiveIsa(), *pool);
  EXPECT_EQ(std::vector<float>(out.begin() + 16, out.end()), alone);
}

TEST(MatMul, NeverTurnsANonFiniteActivationIntoANumber) {
  const auto pool = Threads(2);
  for (DType type : kAllWeightTypes) {
    const Case c{type, 16, 256};
    const PackedMatrix w = Pack(c, RandomWeights(c.type, c.rows, c.cols, 10), false, *pool);
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity()}) {
      auto x = RandomActivations(33, 256, 11);
      x[256 + 100] = bad;
      for (Isa isa : SupportedIsas()) {
        for (bool two_parts : {false, true}) {
          for (int64_t rows : {3, 33}) {
            const auto out = Multiply(w, x, 0, rows, isa, *pool, two_parts);
            for (size_t i = 0; i < out.size(); ++i) {
              ASSERT_EQ(std::isfinite(out[i]), i < 16 || i >= 32)
                  << GetDTypeTraits(type).name << " " << IsaName(isa) << " " << i << " of " << rows
                  << " rows";
            }
          }
        }
      }
    }
  }
}

TEST(MatMul, GivesZeroForRowsOfZerosAndOfValuesTooSmallToScale) {
  const auto pool = Threads(1);
  const Case c{DType::kQ4_1, 16, 64};
  const PackedMatrix w = Pack(c, RandomWeights(c.type, c.rows, c.cols, 10), false, *pool);
  for (float value : {0.0f, -0.0f, 1e-42f, 1e-38f}) {
    const std::vector<float> x(64, value);
    for (float y : Multiply(w, x, 0, 1, ActiveIsa(), *pool)) EXPECT_NEAR(y, 0.0f, 1e-36f);
  }
}

TEST(PackedMatrix, RefusesShapesAndSizesThatDoNotFit) {
  const auto pool = Threads(1);
  const std::vector<std::byte> data(1440);
  const auto refusal = [&](DType type, size_t bytes, int64_t rows, int64_t cols) {
    const auto packed = PackedMatrix::Pack(type, std::span(data).first(bytes), rows, cols, false, *pool);
    EXPECT_FALSE(packed.ok());
    EXPECT_EQ(packed.status().code(), StatusCode::kInvalidArgument);
    return packed.ok() ? std::string() : packed.status().message();
  };
  EXPECT_NE(refusal(DType::kQ4_1, 20, 1, 31).find("multiple of 32"), std::string::npos);
  EXPECT_NE(refusal(DType::kQ4_K, 144, 1, 128).find("multiple of 256"), std::string::npos);
  EXPECT_NE(refusal(DType::kQ4_1, 19, 1, 32).find("needs 20"), std::string::npos);
  EXPECT_NE(refusal(DType::kQ4_1, 40, 1, 32).find("has 40"), std::string::npos);
  EXPECT_NE(refusal(DType::kF32, 0, 0, 32).find("[0, 32]"), std::string::npos);
  EXPECT_NE(refusal(DType::kF32, 4, 1, -1).find("-1"), std::string::npos);
  EXPECT_NE(refusal(DType::kF32, 4, int64_t{1} << 62, int64_t{1} << 62).find("1073741824"),
            std::string::npos);
  EXPECT_NE(refusal(static_cast<DType>(99), 4, 1, 1).find("99"), std::string::npos);
}

}  // namespace
}  // namespace holdfast
