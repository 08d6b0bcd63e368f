// The softmax and the algebra of partials, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "attention/kernels/softmax_kernels.h"
#include "attention/testing_rows.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(SoftmaxKernels, kSoftmaxKernels)

namespace {

constexpr int kStride = 16;
using Chunk = std::vector<float>;

struct OneQuery {
  PartialHead head;
  Chunk weights;
};

class SoftmaxTest : public testing::TestWithParam<Isa> {
 protected:
  const SoftmaxKernels& kernels() const { return HOLDFAST_SELECT_KERNELS(GetParam(), kSoftmaxKernels); }

  OneQuery Softmax(Chunk scores, const ChunkView& view, int tile_begin = 0, int tile_end = kChunkTiles,
                   const ScoreRule& rule = MakeScoreRule(1.0f, 0.0f), bool poisoned = false,
                   float offset = 0.0f) const {
    OneQuery result;
    kernels().softmax(scores.data(), &view, &poisoned, &offset, 1, tile_begin, tile_end, rule, &result.head);
    result.weights = std::move(scores);
    return result;
  }

  static Chunk RandomScores(uint64_t seed, float size) {
    std::mt19937_64 random(seed);
    Chunk scores(kChunkRows);
    for (float& s : scores) s = size * RandomValue(random);
    return scores;
  }

  static bool Seen(const ChunkView& v, int row) {
    return (row >= v.begin0 && row < v.end0) || (row >= v.begin1 && row < v.end1);
  }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, SoftmaxTest, testing::ValuesIn(VectorIsas()),
                         [](const auto& instance) { return std::string(IsaName(instance.param)); });

TEST_P(SoftmaxTest, WeightsAreTheExponentialsOfWhatTheViewHoldsAndExactlyZeroElsewhere) {
  const ChunkView views[] = {
      {0, 256, 0, 0}, {0, 1, 0, 0}, {0, 4, 250, 256}, {3, 17, 30, 31}, {0, 0, 100, 228}};
  for (const float softcap : {0.0f, 5.0f}) {
    for (const ChunkView& view : views) {
      const Chunk scores = RandomScores(7, 20.0f);
      const OneQuery got = Softmax(scores, view, 0, kChunkTiles, MakeScoreRule(0.5f, softcap));
      const auto logit = [&](int r) {
        const double s = 0.5 * scores[static_cast<size_t>(r)];
        return (softcap > 0.0f ? softcap * std::tanh(s / softcap) : s) * std::log2(std::exp(1.0));
      };
      double m = -1e30;
      for (int r = 0; r < kChunkRows; ++r) m = Seen(view, r) ? std::fmax(m, logit(r)) : m;
      double d = 0.0;
      for (int r = 0; r < kChunkRows; ++r) {
        const float weight = got.weights[static_cast<size_t>(r)];
        if (!Seen(view, r)) {
          ASSERT_EQ(weight, 0.0f) << r;
          continue;
        }
        ASSERT_NEAR(weight, std::exp2(logit(r) - m), 4e-6) << r;
        d += weight;
      }
      EXPECT_NEAR(got.head.m, m, 4e-6);
      EXPECT_NEAR(got.head.d, d, 1e-5 * d);
    }
  }
}

TEST_P(SoftmaxTest, TilesThatTheViewDoesNotTouchMayBeLeftOut) {
  const Chunk scores = RandomScores(8, 30.0f);
  const ChunkView view = {0, 0, 37, 150};
  const OneQuery whole = Softmax(scores, view);
  const OneQuery part = Softmax(scores, view, 2, 10);
  EXPECT_EQ(std::memcmp(&whole.head, &part.head, sizeof(PartialHead)), 0);
  for (int r = 32; r < 160; ++r)
    EXPECT_EQ(whole.weights[static_cast<size_t>(r)], part.weights[static_cast<size_t>(r)]);
  EXPECT_EQ(part.weights[0], scores[0]) << "a tile left out is left alone";
}

TEST_P(SoftmaxTest, WhatIsNotSeenMayHoldAnything) {
  const ChunkView view = {0, 20, 0, 0};
  Chunk scores = RandomScores(9, 10.0f);
  const OneQuery clean = Softmax(scores, view);
  scores[20] = std::numeric_limits<float>::quiet_NaN();
  scores[21] = std::numeric_limits<float>::infinity();
  scores[100] = 1e30f;
  const OneQuery spoilt = Softmax(scores, view);
  EXPECT_EQ(std::memcmp(&clean.head, &spoilt.head, sizeof(PartialHead)), 0);
  EXPECT_TRUE(SameBits(clean.weights, spoilt.weights));
}

TEST_P(SoftmaxTest, AQueryThatSeesNothingIsTheEmptyPartial) {
  const OneQuery got = Softmax(RandomScores(1, 1.0f), ChunkView{});
  EXPECT_EQ(got.head.m, kEmptyMax);
  EXPECT_EQ(got.head.d, 0.0f);
  for (const float w : got.weights) EXPECT_EQ(w, 0.0f);
}

TEST_P(SoftmaxTest, AScoreThatIsNotFiniteMakesTheSumNaN) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const float value : bad) {
    for (const int row : {0, 15, 16, 255}) {
      Chunk scores = RandomScores(2, 1.0f);
      scores[static_cast<size_t>(row)] = value;
      for (const float softcap : {0.0f, 30.0f}) {
        const OneQuery got = Softmax(scores, {0, 256, 0, 0}, 0, kChunkTiles, MakeScoreRule(1.0f, softcap));
        EXPECT_TRUE(std::isnan(got.head.d)) << value << " at " << row;
        for (const float w : got.weights) EXPECT_EQ(w, 0.0f);
      }
    }
  }
  EXPECT_TRUE(std::isnan(
      Softmax(RandomScores(2, 1.0f), {0, 256, 0, 0}, 0, kChunkTiles, MakeScoreRule(1.0f, 0.0f), true)
          .head.d));
  Chunk overflowing(kChunkRows, 2e38f);
  EXPECT_TRUE(
      std::isnan(Softmax(overflowing, {0, 256, 0, 0}, 0, kChunkTiles, MakeScoreRule(8.0f, 0.0f)).head.d));
}

TEST_P(SoftmaxTest, DropSmallCutsWeightsBelowTheThresholdOfTheLargerMassAndSaysWhichTilesAreLeft) {
  const float kUnknown = std::nanf("");
  const PartialHead references[] = {{}, {3.0f, 40.0f}, {-300.0f, 1.0f}, {300.0f, 1.0f}, {0.0f, kUnknown}};
  for (const PartialHead& reference : references) {
    OneQuery q = Softmax(RandomScores(10, 30.0f), {0, 0, 16, 240});
    const Chunk before = q.weights;
    const double elsewhere = std::isnan(reference.d) || reference.m == kEmptyMax
                                 ? 0.0
                                 : reference.d * std::exp2(std::min(reference.m - q.head.m, 100.0f));
    const double limit = 0.003 * std::max<double>(q.head.d, elsewhere);
    const uint32_t left = kernels().drop_small(q.weights.data(), 1, 1, 15, &q.head, &reference, 0.003f);
    for (int t = 1; t < 15; ++t) {
      bool any = false;
      for (int r = t * kTileRows; r < (t + 1) * kTileRows; ++r) {
        const auto row = static_cast<size_t>(r);
        if (std::fabs(before[row] - limit) > 1e-5 * limit) {
          ASSERT_EQ(q.weights[row], before[row] < limit ? 0.0f : before[row]) << r;
        }
        any = any || q.weights[row] != 0.0f;
      }
      ASSERT_EQ((left >> t & 1) != 0, any) << t;
    }
  }
}

TEST_P(SoftmaxTest, MergingTheEmptyPartialChangesNoBit) {
  PartialHead x = {1.25f, 3.5f};
  std::array<float, kStride> x_o;
  for (int i = 0; i < kStride; ++i)
    x_o[static_cast<size_t>(i)] = i == 3 ? -0.0f : 0.1f * static_cast<float>(i);
  std::array<float, kStride> garbage;
  garbage.fill(std::numeric_limits<float>::quiet_NaN());

  PartialHead left = {};
  std::array<float, kStride> left_o = garbage;
  kernels().merge(&left, left_o.data(), &x, x_o.data(), 1, kStride);
  EXPECT_EQ(std::memcmp(&left, &x, sizeof(x)), 0);
  EXPECT_EQ(std::memcmp(left_o.data(), x_o.data(), sizeof(x_o)), 0);

  PartialHead right = x;
  std::array<float, kStride> right_o = x_o;
  const PartialHead empty = {};
  kernels().merge(&right, right_o.data(), &empty, garbage.data(), 1, kStride);
  EXPECT_EQ(std::memcmp(&right, &x, sizeof(x)), 0);
  EXPECT_EQ(std::memcmp(right_o.data(), x_o.data(), sizeof(x_o)), 0);
}

TEST_P(SoftmaxTest, MergeAddsInBaseTwoAndKeepsQueriesApart) {
  PartialHead a[2] = {{3.0f, 2.0f}, {-200.0f, 4.0f}};
  const PartialHead b[2] = {{1.0f, 8.0f}, {0.0f, 1.0f}};
  std::array<float, 2 * kStride> a_o;
  std::array<float, 2 * kStride> b_o;
  a_o.fill(1.0f);
  b_o.fill(2.0f);
  kernels().merge(a, a_o.data(), b, b_o.data(), 2, kStride);
  EXPECT_EQ(a[0].m, 3.0f);
  EXPECT_EQ(a[0].d, 2.0f + 8.0f * 0.25f);
  EXPECT_EQ(a_o[0], 1.0f + 2.0f * 0.25f);
  EXPECT_EQ(a[1].m, 0.0f);
  EXPECT_EQ(a[1].d, 1.0f) << "2^-200 is far below what a float sum of 1 holds";
  EXPECT_EQ(a_o[kStride], 2.0f);
}

TEST_P(SoftmaxTest, NaNSurvivesEveryMerge) {
  PartialHead a = {0.0f, std::numeric_limits<float>::quiet_NaN()};
  std::array<float, kStride> o{};
  for (const PartialHead& b : {PartialHead{500.0f, 1.0f}, PartialHead{-500.0f, 1.0f}, PartialHead{}}) {
    kernels().merge(&a, o.data(), &b, o.data(), 1, kStride);
    EXPECT_TRUE(std::isnan(a.d));
    std::array<float, kStride> out{};
    kernels().finish(a, o.data(), 3.0f, nullptr, kStride, out.data());
    for (const float x : out) EXPECT_TRUE(std::isnan(x));
  }
}

TEST_P(SoftmaxTest, FinishDividesMergesTheSinkAndStaysWithinDim) {
  std::array<float, 32> o;
  o.fill(6.0f);
  std::array<float, 24> out;
  out.fill(-1.0f);
  kernels().finish({2.0f, 3.0f}, o.data(), kEmptyMax, nullptr, 20, out.data());
  EXPECT_EQ(out[19], 2.0f);
  EXPECT_EQ(out[20], -1.0f);
  kernels().finish({2.0f, 3.0f}, o.data(), 3.0f, nullptr, 20, out.data());  // m = 3: (6 / 2) / (3 / 2 + 1)
  EXPECT_FLOAT_EQ(out[0], 3.0f / 2.5f);
  kernels().finish(PartialHead{}, o.data(), 3.0f, nullptr, 20, out.data());
  EXPECT_EQ(out[0], 0.0f) << "a sink logit adds no value";
  kernels().finish({2.0f, 3.0f}, o.data(), std::numeric_limits<float>::quiet_NaN(), nullptr, 20, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST_P(SoftmaxTest, AnOffsetIsAddedToEveryScore) {
  const ChunkView view = {3, 200, 0, 0};
  for (const float softcap : {0.0f, 5.0f}) {
    const ScoreRule rule = MakeScoreRule(0.5f, softcap);
    const Chunk scores = RandomScores(5, 20.0f);
    Chunk moved = scores;
    for (float& s : moved) s += 7.5f;
    const OneQuery expected = Softmax(moved, view, 0, kChunkTiles, rule);
    const OneQuery got = Softmax(scores, view, 0, kChunkTiles, rule, false, 7.5f);
    EXPECT_NEAR(got.head.m, expected.head.m, 4e-6);
    EXPECT_NEAR(got.head.d, expected.head.d, 1e-5 * expected.head.d);
    EXPECT_LE(LargestDifference(got.weights, expected.weights), 4e-6f);
    const OneQuery spoilt = Softmax(scores, view, 0, kChunkTiles, rule, false, INFINITY);
    EXPECT_TRUE(softcap > 0.0f || std::isnan(spoilt.head.d)) << "infinity lost";
  }
}

TEST_P(SoftmaxTest, FinishAddsTheCentreForTheShareOfTheRows) {
  std::array<float, 32> o, center, out;
  o.fill(6.0f);
  center.fill(10.0f);
  out.fill(-1.0f);
  kernels().finish({2.0f, 3.0f}, o.data(), kEmptyMax, center.data(), 20, out.data());
  EXPECT_FLOAT_EQ(out[19], 12.0f);
  EXPECT_EQ(out[20], -1.0f);
  kernels().finish({2.0f, 3.0f}, o.data(), 3.0f, center.data(), 20, out.data());  // rows have 1.5 of 2.5
  EXPECT_FLOAT_EQ(out[0], (3.0f + 15.0f) / 2.5f);
  kernels().finish(PartialHead{}, o.data(), 3.0f, center.data(), 20, out.data());
  EXPECT_EQ(out[0], 0.0f) << "no row, no centre";
}

TEST_P(SoftmaxTest, AllFiniteLooksAtEveryValue) {
  for (const int n : {1, 15, 16, 17, 64, 80}) {
    std::vector<float> x(static_cast<size_t>(n), 1e38f);
    EXPECT_TRUE(kernels().all_finite(x.data(), n));
    for (int i = 0; i < n; ++i) {
      std::vector<float> bad = x;
      bad[static_cast<size_t>(i)] = i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -INFINITY;
      EXPECT_FALSE(kernels().all_finite(bad.data(), n)) << i << " of " << n;
    }
  }
}

}  // namespace
}  // namespace holdfast
