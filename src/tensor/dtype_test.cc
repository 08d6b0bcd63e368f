#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

struct Geometry {
  DType type;
  std::string name;
  int block_elements;
  int block_bytes;
};

// The file formats' own figures; docs/formats/weights.md says what the bytes are.
const Geometry kGeometries[] = {
    {DType::kF32, "f32", 1, 4},       {DType::kF16, "f16", 1, 2},       {DType::kBf16, "bf16", 1, 2},
    {DType::kQ8_0, "q8_0", 32, 34},   {DType::kQ4_0, "q4_0", 32, 18},   {DType::kQ4_1, "q4_1", 32, 20},
    {DType::kQ5_0, "q5_0", 32, 22},   {DType::kQ5_1, "q5_1", 32, 24},   {DType::kQ4_K, "q4_K", 256, 144},
    {DType::kQ5_K, "q5_K", 256, 176}, {DType::kQ6_K, "q6_K", 256, 210},
};

TEST(DTypeTest, BlocksHaveTheGeometryOfTheFileFormats) {
  for (const Geometry& g : kGeometries) {
    const DTypeTraits& traits = GetDTypeTraits(g.type);
    EXPECT_EQ(traits.name, g.name);
    EXPECT_EQ(traits.block_elements, g.block_elements) << g.name;
    EXPECT_EQ(traits.block_bytes, g.block_bytes) << g.name;
  }
}

TEST(DTypeTest, ARowIsWholeBlocks) {
  EXPECT_EQ(RowBytesOf(DType::kF32, 576), 2304);
  EXPECT_EQ(RowBytesOf(DType::kQ8_0, 576), 18 * 34);
  EXPECT_EQ(RowBytesOf(DType::kQ4_K, 2048), 8 * 144);
  EXPECT_EQ(RowBytesOf(DType::kQ6_K, 0), 0);
  EXPECT_EQ(RowBytesOf(DType::kQ4_0, int64_t{1} << 40), (int64_t{1} << 35) * 18);
}

}  // namespace
}  // namespace holdfast
