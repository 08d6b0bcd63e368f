#include "attention/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "attention/testing_rows.h"

namespace holdfast {
namespace {

TEST(PlanTest, AViewHoldsExactlyTheRowsOfTheChunkThatTheRangeSees) {
  const int64_t edges[] = {0, 1, 4, 16, 100, 255, 256, 257, 300, 512, 513, 700};
  for (const int64_t begin : edges) {
    for (const int64_t end : edges) {
      for (const int64_t sink : edges) {
        if (begin > end) continue;
        const VisibleRange range = {begin, end, sink};
        for (int64_t chunk = 0; chunk < 3; ++chunk) {
          const ChunkView view = ViewOfChunk(range, chunk);
          ASSERT_LE(view.end0, view.begin1 == view.end1 ? kChunkRows : view.begin1);
          bool any = false;
          for (int r = 0; r < kChunkRows; ++r) {
            const bool seen = (r >= view.begin0 && r < view.end0) || (r >= view.begin1 && r < view.end1);
            any |= seen;
            ASSERT_EQ(seen, range.Sees(chunk * kChunkRows + r))
                << begin << " " << end << " " << sink << " chunk " << chunk << " row " << r;
          }
          ASSERT_EQ(view.empty(), !any);
        }
      }
    }
  }
}

struct PlanCase {
  int q_heads;
  int kv_heads;
  std::vector<TestSequence> sequences;
};

// Whoever ends last folds a group: it waits for exactly the tasks with a step of its head.
void ExpectGroupsCountTheirTasks(const AttentionPlan& plan, int kv_heads) {
  std::vector<int32_t> tasks(plan.groups.size());
  for (const AttentionTask& task : plan.tasks) {
    const QueryBlock& block = plan.blocks[static_cast<size_t>(task.block)];
    std::set<int32_t> heads;
    for (int64_t s = task.first; s < task.first + task.count; ++s) heads.insert(task.HeadOf(s));
    for (int32_t h = 0; h < kv_heads; ++h) EXPECT_EQ(task.Touches(h), heads.contains(h)) << h;
    if (block.group < 0) continue;
    for (const int32_t h : heads) ++tasks[static_cast<size_t>(block.group + h)];
  }
  for (size_t g = 0; g < tasks.size(); ++g) EXPECT_EQ(plan.groups[g].tasks, tasks[g]) << g;
}

class PlanCoverageTest : public testing::TestWithParam<PlanCase> {};

INSTANTIATE_TEST_SUITE_P(Calls, PlanCoverageTest,
                         testing::Values(PlanCase{9, 3, {{8000, 1}}}, PlanCase{9, 3, {{700, 700}}},
                                         PlanCase{4, 1, {{900, 3, 300, 4}}},
                                         PlanCase{32, 1, {{600, 5}, {1, 1}, {2000, 64, 512, 700}}},
                                         PlanCase{2, 2, {{5000, 40}, {3, 3}}}, PlanCase{40, 8, {{4000, 2}}},
                                         PlanCase{200, 100, {{3000, 1}}}));

TEST_P(PlanCoverageTest, EveryChunkThatAQueryHeadSeesIsInExactlyOneTask) {
  TestGeometry geometry;
  geometry.shape = {1, 1, false};
  geometry.q_heads = GetParam().q_heads;
  geometry.kv_heads = GetParam().kv_heads;
  TestCall rows(geometry, GetParam().sequences, 1);
  const AttentionCall call = rows.Call(nullptr);
  for (const int threads : {1, 2, 3, 64}) {
    AttentionPlan plan;
    BuildPlan(call, threads, &plan);
    std::set<std::tuple<int, int64_t, int, int64_t>> done;  // sequence, token, KV head, chunk
    for (const AttentionTask& task : plan.tasks) {
      const QueryBlock& block = plan.blocks[static_cast<size_t>(task.block)];
      for (int64_t i = 0; i < block.tokens; ++i) {
        const QueryToken query = plan.TokenOf(block, i);
        for (int64_t s = task.first; s < task.first + task.count; ++s) {
          const int64_t chunk = block.chunks.At(task.ChunkOf(s));
          ASSERT_TRUE(task.Touches(task.HeadOf(s)));
          ASSERT_TRUE(done.insert({query.sequence, query.token, task.HeadOf(s), chunk}).second);
        }
      }
    }
    ExpectGroupsCountTheirTasks(plan, call.kv_heads);
    for (int s = 0; s < static_cast<int>(call.sequences.size()); ++s) {
      const AttentionSequence& sequence = call.sequences[static_cast<size_t>(s)];
      for (int64_t t = 0; t < sequence.tokens; ++t) {
        const VisibleRange& visible = sequence.visible[static_cast<size_t>(t)];
        for (int64_t c = 0; c * kChunkRows < visible.end; ++c) {
          if (ViewOfChunk(visible, c).empty()) continue;
          for (int h = 0; h < call.kv_heads; ++h)
            ASSERT_TRUE(done.contains({s, t, h, c})) << s << " " << t << " " << c;
        }
      }
    }
  }
}

TEST(PlanTest, LongDecodeIsSpreadOverThreadsAndShortDecodeIsNot) {
  TestGeometry geometry;
  geometry.shape = {64, 64, false};
  geometry.q_heads = 9;
  geometry.kv_heads = 3;
  AttentionPlan plan;
  TestCall long_call(geometry, {{4000, 1}}, 1);
  BuildPlan(long_call.Call(nullptr), 2, &plan);
  EXPECT_GE(plan.tasks.size(), 8u);
  EXPECT_EQ(plan.groups.size(), 3u);
  TestCall short_call(geometry, {{128, 1}}, 1);
  BuildPlan(short_call.Call(nullptr), 2, &plan);
  EXPECT_EQ(plan.tasks.size(), 3u);
  EXPECT_LT(plan.work, kInlineWork);
}

int32_t HeadsOfFirstTask(int q_heads, int kv_heads, const std::vector<TestSequence>& sequences, int threads) {
  TestGeometry geometry;
  geometry.shape = {64, 64, false};
  geometry.q_heads = q_heads;
  geometry.kv_heads = kv_heads;
  AttentionPlan plan;
  TestCall call(geometry, sequences, 1);
  BuildPlan(call.Call(nullptr), threads, &plan);
  const PlanBound bound = BoundPlan(q_heads, kv_heads, threads, call.tokens(), 64);
  EXPECT_LE(plan.held_queries, bound.queries);
  EXPECT_LE(plan.partials, bound.partials);
  EXPECT_LE(static_cast<int64_t>(plan.groups.size()), bound.groups);
  EXPECT_LE(plan.bytes(), bound.bytes);
  return plan.tasks.front().heads;
}

TEST(PlanTest, HeadsTakeTurnsInDecodeAsFarAsTheirQueriesHaveRoom) {
  EXPECT_EQ(HeadsOfFirstTask(9, 3, {{4000, 1}}, 2), 3);
  EXPECT_EQ(HeadsOfFirstTask(32, 8, {{4000, 1}}, 2), 8);
  EXPECT_EQ(HeadsOfFirstTask(64, 8, {{4000, 2}}, 2), 4) << "64 queries of 16";
  EXPECT_EQ(HeadsOfFirstTask(32, 8, {{4000, 1}}, 1), 8);
  EXPECT_EQ(HeadsOfFirstTask(32, 8, {{15000, 1}, {15000, 1}, {15000, 1}}, 2), 8);
  EXPECT_EQ(HeadsOfFirstTask(9, 3, {{700, 700}}, 2), 1) << "prefill";
  EXPECT_EQ(HeadsOfFirstTask(9, 3, std::vector<TestSequence>(8, {600, 1}), 2), 3) << "a task a sequence";
  EXPECT_EQ(HeadsOfFirstTask(9, 3, std::vector<TestSequence>(24, {200, 1}), 8), 2)
      << "36 tasks for 8 threads";
}

TEST(PlanTest, OneKvHeadHasNobodyToTakeTurnsWith) {
  const PlanBound bound = BoundPlan(8, 1, 4, 16, 64);
  EXPECT_EQ(bound.groups, bound.split_groups + 2 * 16) << "weight, and cascade";
}

TEST(PlanTest, ThreadsThatTakeThePartsOfALongDecodeEndTogether) {
  TestGeometry geometry;
  geometry.shape = {64, 64, false};
  geometry.q_heads = 12;
  geometry.kv_heads = 3;
  TestCall call(geometry, {{8192, 1}}, 1);
  for (const int threads : {2, 3, 8}) {
    AttentionPlan plan;
    BuildPlan(call.Call(nullptr), threads, &plan);
    std::vector<int64_t> busy(static_cast<size_t>(threads));
    int64_t all = 0;
    for (const AttentionTask& task : plan.tasks) {
      *std::min_element(busy.begin(), busy.end()) += task.count;
      all += task.count;
    }
    EXPECT_EQ(all, 3 * 8192 / kChunkRows);
    EXPECT_LE(*std::max_element(busy.begin(), busy.end()), all / threads + 2) << threads << " threads";
  }
}

TEST(PlanTest, PrefillHandsOutTheLongestTasksFirst) {
  TestGeometry geometry;
  geometry.shape = {16, 16, false};
  geometry.q_heads = 2;
  geometry.kv_heads = 1;
  TestCall call(geometry, {{1000, 1000}, {600, 600}}, 1);
  AttentionPlan plan;
  BuildPlan(call.Call(nullptr), 2, &plan);
  EXPECT_EQ(plan.groups.size(), 0u);
  int64_t last = INT64_MAX;
  for (const AttentionTask& task : plan.tasks) {
    const int64_t work = plan.blocks[static_cast<size_t>(task.block)].work;
    EXPECT_LE(work, last);
    last = work;
  }
}

TEST(PlanTest, TilesAreFoundInWhicheverSpanHoldsThemAndHolesAreZeros) {
  constexpr int64_t kK = 32;
  constexpr int64_t kV = 48;
  const std::byte* base = reinterpret_cast<const std::byte*>(uintptr_t{1} << 30);
  const std::byte* hole = base - 4096;
  // Positions 10..39 at base, 40..49 in the same tile 2 again, and 300..600 elsewhere.
  const Span spans[] = {{10, 30, base, base + 1000, 10 * kK, 10 * kV},
                        {40, 10, base + 2 * kK, base + 1000 + 2 * kV, 10 * kK, 10 * kV},
                        {300, 301, base + 5000, base + 9000, 7, 9}};
  ChunkTiles k;
  ChunkTiles v;
  k.begin = v.begin = 0;
  k.end = v.end = 6;
  LocateTiles(spans, 0, 1, kK, kV, hole, &k, &v);
  for (int t = 0; t < 4; ++t) {
    EXPECT_EQ(k.tile[t], base + 10 * kK + t * kK);
    EXPECT_EQ(v.tile[t], base + 1000 + 10 * kV + t * kV);
  }
  EXPECT_EQ(k.tile[4], hole);
  EXPECT_EQ(v.tile[5], hole);
  k.begin = v.begin = 0;
  k.end = v.end = kChunkTiles;
  LocateTiles(spans, 1, 2, kK, kV, hole, &k, &v);
  EXPECT_EQ(k.tile[1], hole);
  EXPECT_EQ(k.tile[2], base + 5000 + 14) << "300 is in tile 18, the chunk's third";
  EXPECT_EQ(v.tile[15], base + 9000 + 18 + 13 * kV);
}

}  // namespace
}  // namespace holdfast
