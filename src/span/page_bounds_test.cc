// No stored value lies outside its page's bounds, and none could be nearer, in any codec.
#include "span/page_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace holdfast {
namespace {

class PageBoundsOfEveryCodec : public ::testing::TestWithParam<CodecId> {};

TEST_P(PageBoundsOfEveryCodec, HoldEveryStoredValueAndAreTheNearestSuchF16) {
  const Codec& codec = GetCodec(GetParam());
  const float largest = std::min(codec.max_magnitude, kLargestPageBound);
  std::mt19937_64 random(7);
  for (const int dim : {1, 16, 40, 64, 130}) {
    for (const float size : {1e-7f, 1e-4f, 1.0f, 300.0f, 0.2f * largest}) {
      std::vector<std::byte> tile(static_cast<size_t>(codec.k_tile_bytes(dim)));
      std::vector<float> row(static_cast<size_t>(dim)), lowest(row), highest(row);
      for (int slot = 0; slot < kTileRows; ++slot) {
        for (float& x : row) x = size * (static_cast<float>(random() % 2001) * 1e-3f - 1.0f);
        codec.kernels(Isa::kScalar).encode_k(row.data(), dim, slot, tile.data());
      }
      std::vector<std::byte> bounds(static_cast<size_t>(PageBoundsBytes(dim)));
      WritePageBounds(GetParam(), dim, tile.data(), bounds.data());
      ReadPageBounds(bounds.data(), dim, lowest.data(), highest.data());
      std::vector<float> least(row.size(), INFINITY), most(row.size(), -INFINITY);
      for (int slot = 0; slot < kTileRows; ++slot) {
        codec.decode_k(tile.data(), dim, slot, row.data());
        for (size_t d = 0; d < row.size(); ++d) {
          least[d] = std::min(least[d], row[d]);
          most[d] = std::max(most[d], row[d]);
        }
      }
      for (size_t d = 0; d < row.size(); ++d) {
        const float step = 0x1p-10f * std::max(std::fabs(least[d]), std::fabs(most[d])) + 0x1p-24f;
        ASSERT_LE(lowest[d], least[d]) << "dim " << d << " of " << dim << ", size " << size;
        ASSERT_GE(highest[d], most[d]) << "dim " << d << " of " << dim << ", size " << size;
        ASSERT_LT(least[d] - lowest[d], step);
        ASSERT_LT(highest[d] - most[d], step);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PageBoundsOfEveryCodec, ::testing::ValuesIn(AllCodecs()),
                         [](const auto& i) { return std::string(CodecName(i.param)); });

TEST(PageBounds, SaturateAtTheLargestF16) {
  const Codec& codec = GetCodec(CodecId::kF32);
  std::vector<std::byte> tile(static_cast<size_t>(codec.k_tile_bytes(2)));
  const float row[2] = {1e9f, -1e9f};
  for (int slot = 0; slot < kTileRows; ++slot)
    codec.kernels(Isa::kScalar).encode_k(row, 2, slot, tile.data());
  std::vector<std::byte> bounds(static_cast<size_t>(PageBoundsBytes(2)));
  WritePageBounds(CodecId::kF32, 2, tile.data(), bounds.data());
  float lowest[2], highest[2];
  ReadPageBounds(bounds.data(), 2, lowest, highest);
  EXPECT_EQ(highest[0], kLargestPageBound);
  EXPECT_EQ(lowest[1], -kLargestPageBound);
}

}  // namespace
}  // namespace holdfast
