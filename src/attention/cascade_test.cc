// Sequences that share rows in memory get the same bits whether the rows are scored once for all or for each.
#include "attention/cascade.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "attention/plan.h"
#include "attention/testing_rows.h"
#include "simd/testing_effort.h"

namespace holdfast {
namespace {

TestGeometry Wide(CodecId codec) {
  TestGeometry wide;
  wide.shape = {64, 64, false};
  wide.q_heads = 6;
  wide.kv_heads = 2;
  wide.k_codec = wide.v_codec = codec;
  wide.scale = 0.15f;
  return wide;
}

TestGeometry Latent(CodecId codec) {
  TestGeometry latent = Wide(codec);
  latent.shape = {80, 20, true};
  latent.q_heads = 32;  // two sequences' are as many as the kernels see at once
  latent.kv_heads = 1;
  latent.softcap = 3.0f;
  latent.sink_logits = true;
  return latent;
}

class CascadeTest : public testing::TestWithParam<CodecId> {};

INSTANTIATE_TEST_SUITE_P(EveryCodec, CascadeTest, testing::ValuesIn(AllCodecs()),
                         [](const auto& instance) { return std::string(CodecName(instance.param)); });

struct Shape {
  std::vector<TestSequence> sequences;
  std::vector<int64_t> shared;  // rows that each shares with sequence 0
};

const Shape kShapes[] = {
    {{{600, 1}, {530, 1}}, {0, 512}},
    {{{540, 1}, {513, 1}, {512, 1}, {257, 1}}, {0, 512, 512, 256}},
    {{{530, 1}, {530, 1}, {64, 1}, {300, 20}, {530, 1, 100, 3}}, {0, 272, 48, 256, 256}},
    {{{600, 1, 1000, 4}, {600, 1, 1000, 4}}, {0, 512}},  // windows that see everything yet, and their sinks
};

bool SharesRows(const AttentionCall& call) {
  AttentionPlan plan;
  BuildPlan(call, 2, &plan);
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [](const QueryBlock& block) { return block.several_sequences() && block.tokens > 1; });
}

void ExpectSameBits(const TestGeometry& geometry, const Shape& shape) {
  for (const Isa isa : IsasToVisit()) {
    TestCall call(geometry, shape.sequences, 5);
    for (size_t s = 1; s < shape.shared.size(); ++s) call.ShareRows(s, 0, shape.shared[s]);
    call.cascade_bytes = 0;
    const std::vector<float> apart = call.Run(isa, 1);
    call.cascade_bytes = 1;
    ASSERT_TRUE(SharesRows(call.Call(nullptr))) << geometry.Describe();
    for (const int threads : {1, 2, 3}) {
      EXPECT_TRUE(SameBits(apart, call.Run(isa, threads)))
          << IsaName(isa) << ", " << threads << " threads: " << geometry.Describe();
    }
  }
}

TEST_P(CascadeTest, ChangesNoBitOnAnyNumberOfThreads) {
  for (const Shape& shape : kShapes) ExpectSameBits(Wide(GetParam()), shape);
  ExpectSameBits(Latent(GetParam()), kShapes[0]);
}

TEST(CascadeBitsTest, MoreQueriesThanTheKernelsSeeAtOnceChangeNoneEither) {
  const Shape many = {std::vector<TestSequence>(25, {300, 1}), std::vector<int64_t>(25, 256)};
  for (const CodecId codec : {CodecId::kF16, CodecId::kInt8, CodecId::kAffine4})
    ExpectSameBits(Wide(codec), many);
}

std::vector<SharedPrefix> Found(TestCall& call) {
  return FindSharedPrefixes(call.Call(nullptr));
}

TEST(CascadePlanTest, FindsWhatLiesInTheSameTilesAndSharesItWhereThatSavesMost) {
  TestCall call(Wide(CodecId::kF32), {{1100, 1}, {1100, 1}, {1100, 1}, {1100, 1}}, 3);
  EXPECT_TRUE(Found(call).empty());
  call.ShareRows(1, 0, 1024);
  call.ShareRows(2, 0, 1024);
  std::vector<SharedPrefix> found = Found(call);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].chunks, 4);
  EXPECT_EQ(found[0].sequences.size(), 3u);
  // A fourth with one chunk in common would cost the others three.
  call.ShareRows(3, 0, 256);
  found = Found(call);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].chunks, 4);
}

TEST(CascadePlanTest, WhatStaysInTheCacheAnywayIsNotShared) {
  TestCall call(Wide(CodecId::kF32), {{1100, 1}, {1100, 1}}, 3);
  call.ShareRows(1, 0, 1024);
  call.cascade_bytes = 1024 * 2 * 128 * 4;  // 2 heads, K and V of 64 floats
  EXPECT_EQ(Found(call).size(), 1u);
  call.cascade_bytes += 1;
  EXPECT_TRUE(Found(call).empty());
}

TEST(CascadePlanTest, NothingIsSharedWhereQueriesDoNotFitBesideEachOther) {
  for (const int q_heads : {32, 33}) {
    TestGeometry geometry = Wide(CodecId::kF32);
    geometry.q_heads = q_heads;
    geometry.kv_heads = 1;
    TestCall call(geometry, {{600, 1}, {600, 1}}, 3);
    call.ShareRows(1, 0, 512);
    EXPECT_EQ(Found(call).size(), q_heads == 32 ? 1u : 0u);
    EXPECT_EQ(SharesRows(call.Call(nullptr)), q_heads == 32);
  }
}

TEST(CascadePlanTest, TheLastChunkStaysAQuerysOwn) {
  TestCall call(Wide(CodecId::kF32), {{512, 1}, {512, 1}}, 3);
  call.ShareRows(1, 0, 512);
  const std::vector<SharedPrefix> found = Found(call);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].chunks, 1);
}

TEST(CascadePlanTest, ReadsSharedRowsOnce) {
  TestCall call(Wide(CodecId::kF32), std::vector<TestSequence>(8, {2100, 1}), 3);
  for (size_t s = 1; s < 8; ++s) call.ShareRows(s, 0, 2048);
  AttentionPlan plan;
  BuildPlan(call.Call(nullptr), 2, &plan);
  int64_t chunks = 0;
  for (const AttentionTask& task : plan.tasks) chunks += task.count;
  EXPECT_EQ(chunks, 2 * (8 + 8));  // of two KV heads: 8 shared ones, and each one's last
  call.cascade_bytes = 0;
  BuildPlan(call.Call(nullptr), 2, &plan);
  chunks = 0;
  for (const AttentionTask& task : plan.tasks) chunks += task.count;
  EXPECT_EQ(chunks, 2 * 8 * 9);
}

TEST(CascadePlanTest, StaysWithinWhatIsBounded) {
  for (const int q_heads : {2, 6, 10, 22, 64}) {
    TestGeometry geometry = Wide(CodecId::kF32);
    geometry.q_heads = q_heads;
    for (const int members : {2, 8, 25, 40}) {
      TestCall call(geometry, std::vector<TestSequence>(static_cast<size_t>(members), {1100, 1}), 3);
      for (size_t s = 1; s < static_cast<size_t>(members); ++s) call.ShareRows(s, 0, 1024);
      AttentionPlan plan;
      BuildPlan(call.Call(nullptr), 2, &plan);
      const PlanBound bound = BoundPlan(q_heads, 2, 2, members, 5);
      EXPECT_LE(plan.partials, bound.partials);
      EXPECT_LE(static_cast<int64_t>(plan.groups.size()), bound.groups);
      EXPECT_LE(plan.max_queries, bound.queries) << q_heads << " heads, " << members << " members";
      EXPECT_LE(plan.held_queries, bound.queries);
      EXPECT_LE(plan.bytes(), bound.bytes);
    }
  }
}

}  // namespace
}  // namespace holdfast
