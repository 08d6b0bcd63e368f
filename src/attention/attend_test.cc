// Attention against the reference: every codec and instruction set, random shapes, windows, sinks and rules.
#include "attention/attend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/testing_rows.h"
#include "simd/testing_effort.h"

namespace holdfast {
namespace {

constexpr int kDims[] = {1, 8, 20, 64, 80, 128, 256};

// Values are within [-1, 1]; what a codec that quantises the query or the weights may add to rounding.
float Tolerance(CodecId k, CodecId v) {
  const bool integer = GetCodec(k).integer_dots || GetCodec(v).integer_dots;
  return integer ? 0.03f : 2e-5f;
}

template <typename T, size_t n>
T Pick(std::mt19937_64& random, const T (&values)[n]) {
  return values[random() % n];
}

// Shapes and rules at random; the score spread stays that of a real head whatever the dim.
TestGeometry RandomGeometry(std::mt19937_64& random, CodecId k, CodecId v) {
  TestGeometry g;
  g.shape = {Pick(random, kDims), Pick(random, kDims), false};
  g.k_codec = k;
  g.v_codec = v;
  if (k == v && random() % 4 == 0) {
    g.shape.v_is_prefix_of_k = true;
    g.shape.v_dim = 1 + static_cast<int>(random() % static_cast<uint64_t>(g.shape.k_dim));
  }
  g.kv_heads = g.shape.v_is_prefix_of_k ? 1 : 1 + static_cast<int>(random() % 3);
  g.q_heads = g.kv_heads * (1 + static_cast<int>(random() % 8));
  g.scale = 1.5f / std::sqrt(static_cast<float>(g.shape.k_dim));
  if (random() % 3 == 0) g.softcap = 2.0f;
  g.sink_logits = random() % 3 == 0;
  g.centers = random() % 3 == 0;
  return g;
}

TestSequence RandomSequence(std::mt19937_64& random) {
  constexpr int64_t kWindows[] = {0, 0, 1, 7, 40, 300, 1000};
  constexpr int64_t kSinks[] = {0, 0, 1, 4, 20, 280};
  constexpr int64_t kTokens[] = {1, 1, 2, 5, 17, 40};
  TestSequence s;
  s.length = 1 + static_cast<int64_t>(random() % 700);
  s.tokens = std::min(s.length, Pick(random, kTokens));
  s.window = Pick(random, kWindows);
  s.sinks = s.window == 0 ? 0 : Pick(random, kSinks);
  return s;
}

class AttendTest : public testing::TestWithParam<CodecId> {};

INSTANTIATE_TEST_SUITE_P(EveryCodec, AttendTest, testing::ValuesIn(AllCodecs()),
                         [](const auto& instance) { return std::string(CodecName(instance.param)); });

TEST_P(AttendTest, AgreesWithTheReferenceForRandomShapesRulesAndSpans) {
  std::mt19937_64 random(20 + static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < Rounds(24); ++i) {
    const CodecId v_codec = i % 3 != 0 ? GetParam() : AllCodecs()[random() % AllCodecs().size()];
    const TestGeometry geometry = RandomGeometry(random, GetParam(), v_codec);
    std::vector<TestSequence> sequences;
    for (int s = static_cast<int>(random() % 3); s >= 0; --s) sequences.push_back(RandomSequence(random));
    TestCall call(geometry, sequences, random());
    if (i % 2 == 1) call.Scatter(random());
    const std::vector<float> expected = call.Reference();
    for (const Isa isa : IsasToVisit()) {
      EXPECT_LE(LargestDifference(call.Run(isa, 1 + i % 2), expected), Tolerance(GetParam(), v_codec))
          << IsaName(isa) << ": " << geometry.Describe() << ", case " << i;
    }
  }
}

TestGeometry SmallGeometry(CodecId codec) {
  TestGeometry g;
  g.shape = {64, 64, false};
  g.q_heads = 6;
  g.kv_heads = 2;
  g.k_codec = g.v_codec = codec;
  g.scale = 0.2f;
  return g;
}

TEST_P(AttendTest, AQueryThatSeesNoRowGetsZeros) {
  for (const bool with_sinks_and_centers : {false, true}) {
    TestGeometry geometry = SmallGeometry(GetParam());
    geometry.sink_logits = geometry.centers = with_sinks_and_centers;
    TestCall call(geometry, {{300, 3}}, 5);
    call.visible(0)[1] = {299, 299, 0};
    const std::vector<float> out = call.Run(ActiveIsa(), 2);
    const size_t row = static_cast<size_t>(geometry.q_heads * geometry.shape.v_dim);
    for (size_t d = 0; d < row; ++d) {
      EXPECT_NE(out[d], 0.0f);
      EXPECT_EQ(out[row + d], 0.0f);
      EXPECT_NE(out[2 * row + d], 0.0f);
    }
  }
}

TEST_P(AttendTest, AQueryThatIsNotFiniteGetsNaNAndItsNeighboursDoNot) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  const TestGeometry geometry = SmallGeometry(GetParam());
  const size_t dim = static_cast<size_t>(geometry.shape.k_dim);
  for (const Isa isa : IsasToVisit()) {
    for (const float value : bad) {
      TestCall call(geometry, {{600, 20}}, 6);
      const std::vector<float> clean = call.Run(isa, 2);
      const size_t query = 4 * static_cast<size_t>(geometry.q_heads) + 3;
      call.q()[query * dim + 17] = value;
      const std::vector<float> out = call.Run(isa, 2);
      for (size_t i = 0; i < out.size(); ++i) {
        if (i / dim == query) {
          EXPECT_TRUE(std::isnan(out[i])) << IsaName(isa) << " " << value << " at " << i;
        } else {
          EXPECT_EQ(out[i], clean[i]) << IsaName(isa) << " " << value << " at " << i;
        }
      }
    }
  }
}

TEST_P(AttendTest, ScoresThatOverflowAreNeverASilentZero) {
  TestCall call(SmallGeometry(GetParam()), {{40, 1}}, 7);
  for (float& x : call.q()) x = 3e38f;
  for (const Isa isa : IsasToVisit()) {
    for (const float x : call.Run(isa, 1)) EXPECT_TRUE(std::isnan(x)) << IsaName(isa);
  }
}

TEST_P(AttendTest, SparseVLeavesOutSmallWeightsAndNothingElse) {
  TestGeometry geometry = SmallGeometry(GetParam());
  geometry.scale = 1.2f;
  const std::vector<TestSequence> sequences = {{1500, 4}, {700, 30, 300, 4}};
  const std::vector<float> exact = TestCall(geometry, sequences, 21).Run(ActiveIsa(), 2);
  for (const float threshold : {1e-5f, 1e-3f}) {
    geometry.sparse_v = threshold;
    const std::vector<float> sparse = TestCall(geometry, sequences, 21).Run(ActiveIsa(), 2);
    // Each row left out weighs less than the threshold, and no value is past 1 by much.
    const float most = 1.1f * 1500 * threshold;
    EXPECT_LE(LargestDifference(sparse, exact), std::min(most, 0.1f));
    EXPECT_FALSE(SameBits(sparse, exact)) << "nothing was left out at " << threshold;
  }
}

TEST(AttendWorkspaceTest, GrowsOnceAndIsReused) {
  TestCall call(SmallGeometry(CodecId::kF16), {{3000, 1}, {200, 30}}, 8);
  std::vector<float> out(static_cast<size_t>(call.tokens() * 6 * 64));
  AttentionWorkspace workspace;
  auto pool = ThreadPool::Create(2);
  ASSERT_TRUE(pool.ok());
  ASSERT_TRUE(Attend(call.Call(out.data()), ActiveIsa(), workspace, **pool).ok());
  const int64_t bytes = workspace.bytes();
  EXPECT_GT(bytes, 0);
  TestCall smaller(SmallGeometry(CodecId::kF32), {{100, 1}}, 9);
  std::vector<float> smaller_out(6 * 64);
  ASSERT_TRUE(Attend(smaller.Call(smaller_out.data()), ActiveIsa(), workspace, **pool).ok());
  const std::vector<float> first = out;
  ASSERT_TRUE(Attend(call.Call(out.data()), ActiveIsa(), workspace, **pool).ok());
  EXPECT_EQ(workspace.bytes(), bytes);
  EXPECT_TRUE(SameBits(out, first)) << "what an earlier call left in the scratch must not matter";
}

TEST(AttendWorkspaceTest, ACallOfNothingIsFine) {
  AttentionWorkspace workspace;
  auto pool = ThreadPool::Create(2);
  ASSERT_TRUE(pool.ok());
  TestCall call(SmallGeometry(CodecId::kF32), {}, 1);
  EXPECT_TRUE(Attend(call.Call(nullptr), ActiveIsa(), workspace, **pool).ok());
}

}  // namespace
}  // namespace holdfast
