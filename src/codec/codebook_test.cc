// The codebooks that the aura formats are made of, pinned.
#include "codec/codebook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "codec/aura_table.h"
#include "codec/codec_kernels.h"

namespace holdfast {
namespace {

constexpr int kManyDims = 100000;

struct Pinned {
  int bits;
  int dim;
  double error;
  std::vector<double> values;
};

const std::vector<Pinned>& PinnedBooks() {
  static const std::vector<Pinned> books = {
      {2, 64, 0.114527, {0.4521, 1.5000}},
      {2, 128, 0.116001, {0.4525, 1.5052}},
      {2, 256, 0.116741, {0.4526, 1.5078}},
      {3, 64, 0.033392, {0.2438, 0.7506, 1.3293, 2.1113}},
      {3, 80, 0.033621, {0.2440, 0.7517, 1.3322, 2.1193}},
      {3, 128, 0.033967, {0.2444, 0.7533, 1.3366, 2.1315}},
      {3, 256, 0.034258, {0.2448, 0.7547, 1.3402, 2.1416}},
      {4, 64, 0.009132, {0.1273, 0.3847, 0.6505, 0.9319, 1.2394, 1.5908, 2.0233, 2.6463}},
      {4, 80, 0.009206, {0.1276, 0.3854, 0.6517, 0.9339, 1.2427, 1.5962, 2.0322, 2.6632}},
      {4, 96, 0.009255, {0.1277, 0.3858, 0.6525, 0.9353, 1.2449, 1.5998, 2.0383, 2.6745}},
      {4, 112, 0.009290, {0.1278, 0.3861, 0.6531, 0.9363, 1.2465, 1.6023, 2.0426, 2.6826}},
      {4, 128, 0.009316, {0.1279, 0.3864, 0.6536, 0.9371, 1.2477, 1.6043, 2.0459, 2.6888}},
      {4, 192, 0.009378, {0.1280, 0.3869, 0.6546, 0.9388, 1.2505, 1.6088, 2.0535, 2.7032}},
      {4, 256, 0.009409, {0.1281, 0.3872, 0.6552, 0.9397, 1.2519, 1.6111, 2.0573, 2.7105}}};
  return books;
}

TEST(LloydMax, GivesThePinnedCodebooksOfARotatedUnitVectorsCoordinate) {
  for (const Pinned& pinned : PinnedBooks()) {
    const Codebook book = LloydMax(pinned.bits, pinned.dim);
    ASSERT_EQ(book.values, static_cast<int>(pinned.values.size()));
    for (size_t i = 0; i < pinned.values.size(); ++i) {
      EXPECT_NEAR(book.value[i], pinned.values[i], 6e-5) << pinned.bits << " bits, " << pinned.dim << " dims";
    }
    EXPECT_NEAR(book.mean_squared_error, pinned.error, 2e-6) << pinned.bits << " bits, " << pinned.dim;
  }
}

// Max, "Quantizing for minimum distortion", table I.
TEST(LloydMax, NearsTheGaussianCodebooksAsDimsGrow) {
  const double four[] = {0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733};
  const Codebook book = LloydMax(4, kManyDims);
  for (int i = 0; i < book.values; ++i) EXPECT_NEAR(book.value[i], four[i], 6e-4);
  EXPECT_NEAR(book.mean_squared_error, 0.009497, 2e-5);
  EXPECT_NEAR(LloydMax(1, kManyDims).value[0], std::sqrt(2.0 / 3.14159265358979), 1e-4);
  EXPECT_NEAR(LloydMax(2, kManyDims).mean_squared_error, 0.1175, 1e-4);
  EXPECT_NEAR(LloydMax(3, kManyDims).mean_squared_error, 0.03454, 1e-4);
}

// What makes a codebook optimal, by another integration: Simpson's rule on each cell.
TEST(LloydMax, PutsEveryValueAtTheMeanOfWhatIsNearestToIt) {
  for (const int dim : {4, 7, 64, 80, 128, 256, 1024}) {
    for (int bits = 1; bits <= kMostCodebookBits; ++bits) {
      const Codebook book = LloydMax(bits, dim);
      const auto density = [dim](double x) {
        return std::pow(std::max(0.0, 1 - x * x / dim), (dim - 3) / 2.0);
      };
      double from = 0;
      for (int i = 0; i < book.values; ++i) {
        const double end = std::min(std::sqrt(static_cast<double>(dim)), 9.0);
        const double to = i + 1 == book.values ? end : (book.value[i] + book.value[i + 1]) / 2;
        double mass = 0;
        double moment = 0;
        constexpr int kParts = 2000;
        for (int k = 0; k <= kParts; ++k) {
          const double x = from + (to - from) * k / kParts;
          const double weight = density(x) * (k == 0 || k == kParts ? 1 : k % 2 == 1 ? 4 : 2);
          mass += weight;
          moment += weight * x;
        }
        EXPECT_NEAR(book.value[i], moment / mass, 2e-5) << bits << " bits, " << dim << " dims, value " << i;
        from = to;
      }
    }
  }
}

TEST(LloydMax, TakesAnyDim) {
  for (int dim = 1; dim <= kMaxDim; ++dim) {
    const Codebook book = LloydMax(3, dim);
    double before = 0;
    for (int i = 0; i < book.values; ++i) {
      ASSERT_GT(book.value[i], before) << dim;
      before = book.value[i];
    }
    ASSERT_LT(book.mean_squared_error, 0.0346) << dim;
    ASSERT_GT(book.mean_squared_error, 0.01) << dim;
  }
}

TEST(RoundToLevels, CostsLessThanAFiveHundredthOfTheError) {
  for (const int dim : {64, 80, 96, 112, 128, 192, 256}) {
    for (const int bits : {2, 3, 4}) {
      const Codebook book = LloydMax(bits, dim);
      const IntegerCodebook rounded = RoundToLevels(book, dim);
      EXPECT_LE(rounded.mean_squared_error, book.mean_squared_error * 1.002) << bits << " bits, " << dim;
      EXPECT_LE(rounded.level[rounded.levels - 1], kMostLevel);
    }
  }
}

TEST(AuraTables, HoldThePinnedLevels) {
  struct Expected {
    int bits;
    int dim;
    std::vector<int> levels;
  };
  const Expected expected[] = {{2, 64, {38, 126}},
                               {2, 80, {22, 73}},
                               {2, 96, {37, 123}},
                               {2, 112, {37, 123}},
                               {2, 128, {37, 123}},
                               {2, 192, {36, 120}},
                               {2, 256, {21, 70}},
                               {3, 64, {14, 43, 76, 121}},
                               {3, 80, {13, 40, 71, 113}},
                               {3, 96, {13, 40, 71, 113}},
                               {3, 112, {13, 40, 71, 113}},
                               {3, 128, {13, 40, 71, 113}},
                               {3, 192, {10, 31, 55, 88}},
                               {3, 256, {10, 31, 55, 88}},
                               {4, 64, {6, 18, 30, 43, 57, 73, 93, 122}},
                               {4, 80, {6, 18, 30, 43, 57, 73, 93, 122}},
                               {4, 96, {6, 18, 30, 43, 57, 73, 93, 122}},
                               {4, 112, {6, 18, 30, 43, 57, 73, 93, 122}},
                               {4, 128, {5, 15, 25, 36, 48, 62, 79, 104}},
                               {4, 192, {5, 15, 25, 36, 48, 62, 79, 104}},
                               {4, 256, {5, 15, 25, 36, 48, 62, 79, 104}}};
  for (const Expected& e : expected) {
    const AuraTable& table = AuraTableOf(e.bits, e.dim);
    const auto levels = static_cast<int>(e.levels.size());
    ASSERT_EQ(levels, 1 << (e.bits - 1));
    for (int i = 0; i < levels; ++i) {
      const int level = e.levels[static_cast<size_t>(i)];
      EXPECT_EQ(table.magnitude[i], level) << e.bits << " bits, " << e.dim << " dims, level " << i;
      EXPECT_EQ(table.value_level[levels + i], level);
      EXPECT_EQ(table.value_level[levels - 1 - i], -level);
    }
  }
}

TEST(AuraTables, HoldThePinnedLevelsOfTurnedKeys) {
  struct Expected {
    int bits;
    int dim;
    std::vector<int> levels;
  };
  const Expected expected[] = {
      {4, 64, {-112, -88, -70, -54, -40, -27, -15, -3, 9, 21, 33, 46, 61, 78, 99, 127}},
      {3, 64, {-97, -60, -32, -7, 17, 43, 74, 120}},
      {2, 64, {-95, -23, 40, 120}},
      {4, 80, {-106, -83, -65, -50, -37, -25, -14, -3, 8, 19, 31, 43, 57, 73, 93, 120}},
      {3, 80, {-94, -58, -31, -7, 16, 41, 71, 115}},
      {2, 80, {-95, -24, 38, 116}},
      {4, 96, {-106, -83, -65, -50, -37, -25, -14, -3, 8, 19, 31, 43, 57, 73, 93, 121}},
      {3, 96, {-94, -58, -31, -7, 16, 41, 71, 115}},
      {2, 96, {-101, -26, 39, 120}},
      {4, 112, {-106, -83, -65, -50, -37, -25, -14, -3, 8, 19, 31, 43, 57, 73, 93, 121}},
      {3, 112, {-102, -63, -34, -8, 17, 44, 76, 123}},
      {2, 112, {-92, -24, 35, 108}},
      {4, 128, {-107, -83, -65, -50, -37, -25, -14, -3, 8, 19, 31, 43, 57, 73, 93, 122}},
      {3, 128, {-104, -64, -34, -8, 17, 44, 76, 124}},
      {2, 128, {-109, -29, 40, 125}},
      {4, 192, {-108, -83, -65, -50, -37, -25, -14, -3, 8, 19, 31, 43, 57, 73, 93, 123}},
      {3, 192, {-109, -67, -36, -9, 17, 45, 78, 127}},
      {2, 192, {-109, -30, 38, 121}},
      {4, 256, {-108, -83, -65, -50, -37, -25, -14, -3, 8, 19, 30, 42, 56, 72, 92, 123}},
      {3, 256, {-106, -65, -35, -9, 16, 43, 75, 122}},
      {2, 256, {-115, -32, 39, 125}}};
  for (const Expected& e : expected) {
    const AuraTable& table = AuraTableOf(e.bits, e.dim);
    ASSERT_EQ(static_cast<int>(e.levels.size()), 1 << e.bits);
    for (size_t i = 0; i < e.levels.size(); ++i) {
      EXPECT_EQ(table.key_level[i], e.levels[i]) << e.bits << " bits, " << e.dim << " dims, level " << i;
    }
  }
}

// Against rows themselves: each value is the mean of what is nearest to it.
TEST(TurnedLloydMax, PutsEveryValueAtTheMeanOfWhatIsNearestToIt) {
  std::mt19937 rng(5);
  std::normal_distribution<double> normal;
  for (const int dim : {16, 64, 128}) {
    const TurnedCodebook book = TurnedLloydMax(4, dim);
    std::vector<double> mass(16), moment(16);
    for (int row = 0; row < 400000 / dim; ++row) {
      std::vector<double> x(static_cast<size_t>(dim));
      double largest = 0;
      for (double& value : x) {
        value = normal(rng);
        if (std::fabs(value) > std::fabs(largest)) largest = value;
      }
      for (const double value : x) {
        size_t nearest = 0;
        for (size_t i = 1; i < 16; ++i) {
          if (std::fabs(value / largest - book.value[i]) < std::fabs(value / largest - book.value[nearest])) {
            nearest = i;
          }
        }
        mass[nearest] += largest * largest;
        moment[nearest] += largest * value;
      }
    }
    for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(book.value[i], moment[i] / mass[i], 0.006) << dim << " " << i;
  }
}

TEST(AuraTables, AreMadeOnceWhoeverAsksFirst) {
  std::vector<const AuraTable*> seen(8);
  {
    std::vector<std::jthread> threads;
    for (const AuraTable*& table : seen) threads.emplace_back([&table] { table = &AuraTableOf(4, 333); });
  }
  for (const AuraTable* table : seen) {
    EXPECT_EQ(table, seen[0]);
    EXPECT_GT(table->magnitude[7], table->magnitude[6]);
  }
}

}  // namespace
}  // namespace holdfast
