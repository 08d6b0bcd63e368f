#include "attention/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/locate.h"
#include "attention/page_choice.h"
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
  int64_t shared = 0;  // rows that all share with the first
  int64_t kept = 0;    // last rows that a query sees, in other codecs
  int64_t sparse_pages = 0;
};

// A call whose queries see their last `rows` as protected ones.
struct ProtectedCall {
  ProtectedCall(const AttentionCall& whole, int64_t rows) : call(whole) {
    if (rows == 0) return;
    for (AttentionSequence s : whole.sequences) {
      std::vector<VisibleRange>&others = visible.emplace_back(), &last = kept.emplace_back();
      for (const VisibleRange& range : s.visible) {
        const int64_t from = std::max(range.end - rows, range.begin);
        others.push_back({range.begin, from, range.sink_end});
        last.push_back({from, range.end, 0});
      }
      s.visible = others;
      s.protected_visible = last;
      sequences.push_back(s);
    }
    call.protected_codecs = KvSpec{whole.k_codec, whole.v_codec};
    call.sequences = sequences;
  }
  std::vector<std::vector<VisibleRange>> visible, kept;
  std::vector<AttentionSequence> sequences;
  AttentionCall call;
};

using SeenChunk = std::pair<bool, int64_t>;  // of protected rows or not

std::vector<SeenChunk> ChunksSeen(const AttentionCall& call, const AttentionSequence& sequence, size_t t) {
  std::vector<SeenChunk> chunks;
  const auto add = [&](bool kept, const VisibleRange& visible) {
    for (int64_t c = 0; c * kChunkRows < visible.end; ++c)
      if (!ViewOfChunk(visible, c).empty()) chunks.emplace_back(kept, c);
  };
  const VisibleRange& visible = sequence.visible[t];
  add(false, ChoosesPages(visible, call.sparse_pages) ? GatheredRange(visible, call.sparse_pages) : visible);
  if (call.protected_codecs.has_value()) add(true, sequence.protected_visible[t]);
  return chunks;
}

// Whoever ends last folds a group: it waits for exactly the tasks with a step of its head, and for those of the block
// before it.
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
  for (const QueryBlock& block : plan.blocks) {
    if (block.group < 0) continue;
    for (int32_t h = 0; h < kv_heads; ++h) {
      int32_t all = tasks[static_cast<size_t>(block.group + h)];
      if (block.prefix >= 0) {
        const QueryBlock& before = plan.blocks[static_cast<size_t>(block.prefix)];
        all += tasks[static_cast<size_t>(before.group + h)];
      }
      EXPECT_EQ(plan.groups[static_cast<size_t>(block.group + h)].tasks, all) << h;
    }
  }
}

class PlanCoverageTest : public testing::TestWithParam<PlanCase> {};

INSTANTIATE_TEST_SUITE_P(
    Calls, PlanCoverageTest,
    testing::Values(PlanCase{9, 3, {{8000, 1}}}, PlanCase{9, 3, {{700, 700}}},
                    PlanCase{4, 1, {{900, 3, 300, 4}}},
                    PlanCase{32, 1, {{600, 5}, {1, 1}, {2000, 64, 512, 700}}},
                    PlanCase{2, 2, {{5000, 40}, {3, 3}}}, PlanCase{40, 8, {{4000, 2}}},
                    PlanCase{200, 100, {{3000, 1}}}, PlanCase{9, 3, {{8000, 1}, {5000, 1}, {300, 1}}, 4096},
                    PlanCase{32, 8, {{600, 1, 1000, 4}, {600, 1, 1000, 4}, {300, 20}}, 512},
                    PlanCase{9, 3, {{8000, 1}, {900, 60}}, 0, 300},
                    PlanCase{32, 8, {{8000, 1}, {600, 3}, {3000, 20}}, 0, 0, 40},
                    PlanCase{9, 3, {{8000, 1}, {900, 60}}, 0, 300, 20}));

TEST_P(PlanCoverageTest, EveryChunkThatAQueryHeadSeesIsInExactlyOneTask) {
  TestGeometry geometry;
  geometry.shape = {1, 1, false};
  geometry.q_heads = GetParam().q_heads;
  geometry.kv_heads = GetParam().kv_heads;
  geometry.sparse_pages = GetParam().sparse_pages;
  TestCall rows(geometry, GetParam().sequences, 1);
  for (size_t s = 1; GetParam().shared > 0 && s < GetParam().sequences.size(); ++s)
    rows.ShareRows(s, 0, std::min(GetParam().shared, GetParam().sequences[s].length / kTileRows * kTileRows));
  const ProtectedCall protected_call(rows.Call(nullptr), GetParam().kept);
  const AttentionCall& call = protected_call.call;
  for (const int threads : {1, 2, 3, 64}) {
    AttentionPlan plan;
    BuildPlan(call, threads, &plan);
    EXPECT_EQ(GetParam().shared > 0, !plan.members.empty());
    std::set<std::tuple<int, int64_t, int, SeenChunk>> done;  // sequence, token, KV head, chunk
    for (const AttentionTask& task : plan.tasks) {
      const QueryBlock& block = plan.blocks[static_cast<size_t>(task.block)];
      for (int64_t i = 0; i < block.tokens; ++i) {
        const QueryToken query = plan.TokenOf(block, i);
        for (int64_t s = task.first; s < task.first + task.count; ++s) {
          const int64_t ordinal = task.ChunkOf(s), others = block.chunks.count();
          const SeenChunk chunk = ordinal < others
                                      ? SeenChunk(false, block.chunks.At(ordinal))
                                      : SeenChunk(true, block.protected_chunks.At(ordinal - others));
          ASSERT_TRUE(task.Touches(task.HeadOf(s)));
          ASSERT_TRUE(done.insert({query.sequence, query.token, task.HeadOf(s), chunk}).second);
        }
      }
    }
    ExpectGroupsCountTheirTasks(plan, call.kv_heads);
    for (int s = 0; s < static_cast<int>(call.sequences.size()); ++s) {
      const AttentionSequence& sequence = call.sequences[static_cast<size_t>(s)];
      for (int64_t t = 0; t < sequence.tokens; ++t) {
        for (const SeenChunk& chunk : ChunksSeen(call, sequence, static_cast<size_t>(t)))
          for (int h = 0; h < call.kv_heads; ++h)
            ASSERT_TRUE(done.contains({s, t, h, chunk})) << s << " " << t << " " << chunk.second;
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

TestGeometry GeometryOf(int q_heads, int kv_heads, int dim) {
  TestGeometry geometry;
  geometry.shape = {dim, dim, false};
  geometry.q_heads = q_heads;
  geometry.kv_heads = kv_heads;
  return geometry;
}

// shared: rows that all share with the first.
AttentionPlan PlanOf(const TestGeometry& geometry, const std::vector<TestSequence>& sequences, int threads,
                     int64_t shared = 0) {
  TestCall call(geometry, sequences, 1);
  for (size_t s = 1; shared > 0 && s < sequences.size(); ++s) call.ShareRows(s, 0, shared);
  AttentionPlan plan;
  BuildPlan(call.Call(nullptr), threads, &plan);
  const PlanBound bound = BoundPlan(geometry.q_heads, geometry.kv_heads, threads, call.tokens(), 64);
  EXPECT_LE(plan.max_queries, bound.queries);
  EXPECT_LE(plan.held_queries, bound.queries);
  EXPECT_LE(plan.partials, bound.partials);
  EXPECT_LE(static_cast<int64_t>(plan.groups.size()), bound.groups);
  EXPECT_LE(plan.bytes(), bound.bytes);
  return plan;
}

int32_t HeadsOfFirstTask(int q_heads, int kv_heads, const std::vector<TestSequence>& sequences, int threads) {
  return PlanOf(GeometryOf(q_heads, kv_heads, 64), sequences, threads).tasks.front().heads;
}

TEST(PlanTest, HeadsTakeTurnsInDecodeAsFarAsTheirQueriesHaveRoom) {
  EXPECT_EQ(HeadsOfFirstTask(9, 3, {{4000, 1}}, 2), 3);
  EXPECT_EQ(HeadsOfFirstTask(32, 8, {{4000, 1}}, 2), 8);
  EXPECT_EQ(HeadsOfFirstTask(64, 8, {{4000, 2}}, 2), 4) << "64 queries of 16";
  EXPECT_EQ(HeadsOfFirstTask(32, 8, {{4000, 1}}, 1), 8);
  EXPECT_EQ(HeadsOfFirstTask(32, 8, {{15000, 1}, {15000, 1}, {15000, 1}}, 2), 8);
  EXPECT_EQ(HeadsOfFirstTask(9, 3, {{700, 700}}, 2), 1) << "prefill";
  EXPECT_EQ(HeadsOfFirstTask(9, 3, std::vector<TestSequence>(8, {600, 1}), 2), 3) << "a task a sequence";
  EXPECT_EQ(HeadsOfFirstTask(9, 3, std::vector<TestSequence>(12, {200, 1}), 8), 2)
      << "36 heads for 8 threads: not all three of a sequence";
  EXPECT_EQ(HeadsOfFirstTask(40, 2, std::vector<TestSequence>(8, {600, 1}), 2), 2)
      << "however many query heads share a KV head";
}

// How long threads that take one task after the other are busy, in parts of what they would be with equal shares.
double BusiestOf(const AttentionPlan& plan, int threads) {
  std::vector<double> busy(static_cast<size_t>(threads));
  for (const AttentionTask& task : plan.tasks) {
    const QueryBlock& block = plan.blocks[static_cast<size_t>(task.block)];
    *std::min_element(busy.begin(), busy.end()) +=
        static_cast<double>(block.work * task.count) / static_cast<double>(block.chunk_count());
  }
  return *std::max_element(busy.begin(), busy.end()) * threads / static_cast<double>(plan.work);
}

TEST(PlanTest, ThreadsThatDecodeManySequencesEndTogether) {
  const TestGeometry geometry = GeometryOf(32, 8, 1);
  const auto busiest = [&](size_t sequences, int64_t rows, int threads) {
    return BusiestOf(PlanOf(geometry, std::vector<TestSequence>(sequences, {rows, 1}), threads), threads);
  };
  EXPECT_LE(busiest(33, 200, 8), 1.01);
  EXPECT_LE(busiest(33, 4000, 8), 1.01);
  EXPECT_LE(busiest(9, 4000, 2), 1.01);
  EXPECT_LE(busiest(20, 8192, 8), 1.03) << "partials are for the last ones, where parts are small";
}

TEST(PlanTest, RowsThatSequencesShareOccupyEveryThread) {
  const AttentionPlan plan = PlanOf(GeometryOf(32, 8, 64), {{300, 1}, {300, 1}}, 8, 256);
  ASSERT_FALSE(plan.members.empty());
  EXPECT_LE(BusiestOf(plan, 8), 1.01) << "one chunk, which no cut makes shorter";
}

TEST(PlanTest, WithSparseVAHeadsFirstChunkIsScoredForFewTasks) {
  TestGeometry geometry = GeometryOf(32, 8, 64);
  geometry.sparse_v = 0.01f;
  for (const int threads : {2, 3}) {
    int64_t references = 0;
    for (const AttentionTask& task : PlanOf(geometry, {{4096, 1}}, threads).tasks)
      for (int32_t head = 0; head < 8; ++head) references += task.Touches(head) ? 1 : 0;
    EXPECT_LE(references, 8 * threads) << threads << " threads";
  }
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
