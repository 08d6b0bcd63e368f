// Sparse pages against the reference's own choice, and against not choosing at all.
#include <gtest/gtest.h>

#include <cmath>

#include "attention/testing_rows.h"
#include "simd/testing_effort.h"

namespace holdfast {
namespace {

class SparsePagesTest : public testing::TestWithParam<CodecId> {
 protected:
  static float Tolerance() { return GetCodec(GetParam()).integer_dots ? 0.03f : 2e-5f; }
};

INSTANTIATE_TEST_SUITE_P(EveryCodec, SparsePagesTest, testing::ValuesIn(AllCodecs()),
                         [](const auto& instance) { return std::string(CodecName(instance.param)); });

TestGeometry GeometryOf(CodecId codec, int shape) {
  TestGeometry g;
  g.k_codec = g.v_codec = codec;
  switch (shape) {
    case 0:
      g.shape = {64, 64, false};
      g.q_heads = 6;
      g.kv_heads = 2;
      break;
    case 1:
      g.shape = {80, 24, true};
      g.q_heads = 7;
      g.kv_heads = 1;
      g.softcap = 3.0f;
      g.centers = true;
      break;
    case 2:
      g.shape = {20, 130, false};
      g.q_heads = g.kv_heads = 2;
      g.sink_logits = g.centers = true;
      break;
    default:
      g.shape = {128, 72, false};
      g.q_heads = 5;
      g.kv_heads = 1;
      g.softcap = 4.0f;
  }
  // Scores far enough apart that the choice matters.
  g.scale = (shape == 2 ? -4.0f : 4.0f) / std::sqrt(static_cast<float>(g.shape.k_dim));
  return g;
}

TEST_P(SparsePagesTest, AgreeWithTheReferencesChoice) {
  for (int shape = 0; shape < 4; ++shape) {
    for (const int64_t pages : {8, 13, 32}) {
      TestGeometry geometry = GeometryOf(GetParam(), shape);
      geometry.sparse_pages = pages;
      TestCall call(geometry, {{700, 2}, {pages * 16 + 4, 8}, {577, 1}, {608, 1}},
                    40 + static_cast<uint64_t>(shape));
      if (pages == 13) call.Scatter(5);
      const std::vector<float> expected = call.Reference();
      for (const Isa isa : IsasToVisit()) {
        EXPECT_LE(LargestDifference(call.Run(isa, 2), expected), Tolerance())
            << IsaName(isa) << ": " << geometry.Describe();
      }
    }
  }
}

TEST_P(SparsePagesTest, AreAsEverWhereATokenSeesNoMoreThanItMay) {
  for (int shape = 0; shape < 4; ++shape) {
    TestGeometry geometry = GeometryOf(GetParam(), shape);
    const std::vector<TestSequence> sequences = {{700, 1}, {704, 40}, {9, 3}};
    const std::vector<float> all = TestCall(geometry, sequences, 3).Run(ActiveIsa(), 2);
    geometry.sparse_pages = 44;  // 704 rows
    EXPECT_TRUE(SameBits(TestCall(geometry, sequences, 3).Run(ActiveIsa(), 2), all)) << geometry.Describe();
    geometry.sparse_pages = 43;
    EXPECT_FALSE(SameBits(TestCall(geometry, sequences, 3).Run(ActiveIsa(), 2), all)) << geometry.Describe();
  }
}

TEST_P(SparsePagesTest, AQueryThatIsNotFiniteGetsNaNAndItsNeighboursDoNot) {
  TestGeometry geometry = GeometryOf(GetParam(), 0);
  geometry.sparse_pages = 10;
  for (const float bad : {NAN, INFINITY, 3e38f}) {
    TestCall call(geometry, {{600, 3}}, 6);
    const std::vector<float> clean = call.Run(ActiveIsa(), 2);
    const size_t dim = 64, query = 6 + 4;  // of the second token, head 4
    for (size_t d = 0; d < dim; ++d) call.q()[query * dim + d] = bad;
    const std::vector<float> out = call.Run(ActiveIsa(), 2);
    for (size_t i = 0; i < out.size(); ++i) {
      if (i / dim == query) {
        EXPECT_TRUE(std::isnan(out[i])) << bad << " at " << i;
      } else if (i / dim < 6 + 3 ||
                 i / dim >= 12) {  // heads 3 to 5 share a KV head: what they visit is chosen together
        EXPECT_EQ(out[i], clean[i]) << bad << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
