#include "attention/plan.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <tuple>

#include "attention/cascade.h"
#include "attention/page_choice.h"
#include "base/checked.h"

namespace holdfast {
namespace {

// A block this small is worth spreading over threads by chunks; a larger one is cut by tokens first.
constexpr int64_t kSplitQueries = 16;
// Tasks a thread should find, so that the last ones end together.
constexpr int64_t kTasksPerThread = 4;
// A part of a decode step's chunks is this share of what a thread would do of the rest. Parts grow smaller, so that the last
// ones end together, and are few: each prepares its queries anew and starts with rows that nobody asked for ahead.
constexpr int64_t kShareOfRest = 2;
constexpr int64_t kLeastSteps = 2;

// What the tokens [first, first + count) see together, as positions.
VisibleRange UnionOf(std::span<const VisibleRange> visible, int64_t first, int64_t count) {
  VisibleRange all = visible[static_cast<size_t>(first)];
  for (int64_t i = first + 1; i < first + count; ++i) {
    const VisibleRange& one = visible[static_cast<size_t>(i)];
    all.begin = std::min(all.begin, one.begin);
    all.end = std::max(all.end, one.end);
    all.sink_end = std::max(all.sink_end, one.sink_end);
  }
  all.sink_end = std::min(all.sink_end, all.end);
  return all;
}

ChunkSet ChunksOf(const VisibleRange& all) {
  ChunkSet set;
  set.sink_end = CeilDiv(std::max<int64_t>(all.sink_end, 0), kChunkRows);
  set.begin = std::max(all.begin / kChunkRows, set.sink_end);
  set.end = std::max(all.begin < all.end ? CeilDiv(all.end, kChunkRows) : 0, set.begin);
  return set;
}

int64_t RowsOf(const VisibleRange& all) {
  const int64_t window = std::max<int64_t>(all.end - all.begin, 0);
  return window + std::clamp<int64_t>(all.sink_end, 0, all.begin);
}

// Tokens of a block: a power of two, so that blocks lie on the tiles' boundaries.
int64_t BlockTokens(const AttentionCall& call, int64_t group, int threads) {
  int64_t tokens = 0;
  for (const AttentionSequence& s : call.sequences) tokens += s.tokens;
  auto block = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(kBlockQueries / group, 1))));
  const auto tasks = [&] { return CeilDiv(tokens, block) * call.kv_heads; };
  while (block > 1 && block * group > kSplitQueries && tasks() < kTasksPerThread * threads) block /= 2;
  return block;
}

// A token that chooses its pages is a block of its own: what it visits no other does.
void CutAtChoice(const AttentionCall& call, const AttentionSequence& s, QueryBlock* block) {
  if (call.sparse_pages == 0) return;
  const auto visible = [&](int64_t i) { return s.visible[static_cast<size_t>(block->token + i)]; };
  int64_t tokens = 0;
  while (tokens < block->tokens && !ChoosesPages(visible(tokens), call.sparse_pages)) ++tokens;
  if (tokens == 0) block->seen_pages = PagesSeen(visible(0));
  block->tokens = std::max<int64_t>(tokens, 1);
}

// prefix_chunks: what a block of several sequences does for this one.
void AddBlocks(const AttentionCall& call, int32_t sequence, int64_t block_tokens, int64_t prefix_chunks,
               AttentionPlan* plan) {
  const AttentionSequence& s = call.sequences[static_cast<size_t>(sequence)];
  const int64_t group = call.q_heads / call.kv_heads;
  int64_t token = 0;
  while (token < s.tokens) {
    const int64_t position = std::max<int64_t>(s.position(token), 0);
    QueryBlock block;
    block.sequence = sequence;
    block.token = token;
    block.tokens = std::min(s.tokens - token, block_tokens - position % block_tokens);
    CutAtChoice(call, s, &block);
    const VisibleRange all = UnionOf(s.visible, token, block.tokens);
    block.chunks = ChunksOf(all);
    // A window that has not slid yet has its sinks among the shared chunks.
    if (prefix_chunks > 0) block.chunks = {.begin = prefix_chunks, .end = block.chunks.end};
    int64_t rows = RowsOf(all) - prefix_chunks * kChunkRows;
    int64_t bound_values = 0;
    if (block.chooses()) {
      block.chunks = {.sink_end = 0, .begin = 0, .end = CeilDiv(call.sparse_pages, kChunkTiles)};
      rows = call.sparse_pages * kTileRows;
      bound_values = block.seen_pages * 2 * call.shape.k_dim;
    }
    if (call.protected_codecs.has_value()) {
      const VisibleRange kept = UnionOf(s.protected_visible, token, block.tokens);
      block.protected_chunks = ChunksOf(kept);
      rows += RowsOf(kept);
    }
    block.work = block.tokens * group * (rows * (call.shape.k_dim + call.shape.v_dim) + bound_values);
    plan->seen_pages = std::max(plan->seen_pages, block.seen_pages);
    token += block.tokens;
    plan->work += block.work * call.kv_heads;
    plan->max_queries = std::max(plan->max_queries, block.tokens * group);
    plan->blocks.push_back(block);
  }
}

// The blocks of several sequences: as many tokens as the kernels see together.
void AddSharedBlocks(const AttentionCall& call, const SharedPrefix& prefix, AttentionPlan* plan) {
  const int64_t group = call.q_heads / call.kv_heads;
  const auto members = static_cast<int64_t>(prefix.sequences.size());
  const int64_t parts = CeilDiv(members, std::max<int64_t>(kBlockQueries / group, 1));
  const int64_t most = CeilDiv(members, parts);
  for (int64_t first = 0; first < members; first += most) {
    QueryBlock block;
    block.tokens = std::min(most, members - first);
    block.sequence = prefix.sequences[static_cast<size_t>(first)];
    block.token = -1;  // before its members in the order
    block.chunks.end = prefix.chunks;
    block.first_member = static_cast<int64_t>(plan->members.size());
    block.work = block.tokens * group * prefix.chunks * kChunkRows * (call.shape.k_dim + call.shape.v_dim);
    plan->members.insert(plan->members.end(), prefix.sequences.begin() + first,
                         prefix.sequences.begin() + first + block.tokens);
    plan->work += block.work * call.kv_heads;
    plan->max_queries = std::max(plan->max_queries, block.tokens * group);
    plan->blocks.push_back(block);
  }
}

// Blocks know each other by index once they are in their last order; until then members are sequences.
void LinkMembers(AttentionPlan* plan) {
  if (plan->members.empty()) return;
  std::vector<int32_t> block_of;
  for (size_t b = 0; b < plan->blocks.size(); ++b) {
    const QueryBlock& block = plan->blocks[b];
    if (block.several_sequences()) continue;
    block_of.resize(std::max(block_of.size(), static_cast<size_t>(block.sequence) + 1));
    block_of[static_cast<size_t>(block.sequence)] = static_cast<int32_t>(b);
  }
  for (size_t b = 0; b < plan->blocks.size(); ++b) {
    const QueryBlock& block = plan->blocks[b];
    if (!block.several_sequences()) continue;
    for (int64_t i = 0; i < block.tokens; ++i) {
      int32_t& member = plan->members[static_cast<size_t>(block.first_member + i)];
      member = block_of[static_cast<size_t>(member)];
      plan->blocks[static_cast<size_t>(member)].prefix = static_cast<int32_t>(b);
      plan->blocks[static_cast<size_t>(member)].prefix_token = static_cast<int32_t>(i);
    }
  }
}

// Members wait for the tasks of the block before them too.
void CountSharedTasks(const AttentionCall& call, AttentionPlan* plan) {
  for (const QueryBlock& block : plan->blocks) {
    if (block.prefix < 0) continue;
    const QueryBlock& before = plan->blocks[static_cast<size_t>(block.prefix)];
    const auto to = static_cast<size_t>(block.group), from = static_cast<size_t>(before.group);
    for (size_t head = 0; head < static_cast<size_t>(call.kv_heads); ++head) {
      plan->groups[to + head].tasks += plan->groups[from + head].tasks;
    }
  }
}

int64_t WorkOf(const QueryBlock& block, int64_t chunks) {
  return block.work * chunks / std::max<int64_t>(block.chunk_count(), 1);
}

// Steps of the next part of a block that is cut, where `left` of the call's work has no task yet.
int64_t PartOf(int64_t left, int threads, const QueryBlock& block) {
  const int64_t share =
      left / (kShareOfRest * threads) * block.chunk_count() / std::max<int64_t>(block.work, 1);
  return std::max(share, kLeastSteps);
}

// Partials of blocks that are cut only so that their heads take turns: they are memory of the budget. Where a KV head
// is not worth a cut of its own (8 of them on two threads), a sequence of 32 query heads is cut up to 65,536 rows; past
// that its tasks are whole heads, and two at most take turns.
constexpr int64_t kMaxTurnPartials = 8192;

// Of such blocks chunks are spread over threads and KV heads take turns: what decodes, not a prompt's part.
bool IsOfDecode(const QueryBlock& block, int64_t group) {
  return block.several_sequences() || block.tokens * group <= std::max(kSplitQueries, group);
}

// KV heads that take turns in a block's next task: as many as have room beside each other where the kernels' queries
// have, and of a block that is not cut no more than a part would be, where `left` of the work has no task yet.
int32_t HeadsOfTask(const AttentionCall& call, int threads, const QueryBlock& block, bool cut, int64_t left) {
  const int64_t group = call.q_heads / call.kv_heads;
  int64_t heads = kBlockQueries / (block.tokens * group);
  if (cut) {
    if (call.sparse_v > 0.0f) return 1;  // a part scores the reference of each head that it touches
  } else {
    if (!IsOfDecode(block, group) || block.chooses()) return 1;
    if (threads > 1) {
      heads = std::min(heads, left / (kShareOfRest * threads * std::max<int64_t>(block.work, 1)));
    }
  }
  return static_cast<int32_t>(std::clamp<int64_t>(heads, 1, call.kv_heads));
}

// The tasks of the block's KV heads [head, head + heads). *left: the work that has no task yet.
void AddTasksOf(int32_t index, int32_t head, int32_t heads, int threads, bool cut, AttentionPlan* plan,
                int64_t* left) {
  const QueryBlock& block = plan->blocks[static_cast<size_t>(index)];
  const int64_t steps = block.chunk_count() * heads;
  int64_t first = 0;
  do {
    const int64_t rest = steps - first;
    const AttentionTask task = {index, head, heads, first,
                                cut ? std::min(rest, PartOf(*left, threads, block)) : rest};
    plan->tasks.push_back(task);
    *left -= WorkOf(block, task.count);
    first += task.count;
    if (block.group < 0) continue;
    for (int32_t h = head; h < head + heads; ++h) {
      plan->groups[static_cast<size_t>(block.group + h)].tasks += task.Touches(h) ? 1 : 0;
    }
  } while (first < steps);
}

// What belongs together in one fold leaves a partial a chunk, however few tasks do it.
bool FoldsWithOthers(const QueryBlock& block) {
  return block.several_sequences() || block.prefix >= 0;
}

// Decides whether several tasks share the block's chunks: where one KV head of it, or all of them taking turns, would
// be a large part of the call. Charges plan->turn_partials with what a cut only for turns keeps.
bool DecideCut(const AttentionCall& call, int threads, const QueryBlock& block, int64_t left,
               AttentionPlan* plan) {
  const int64_t group = call.q_heads / call.kv_heads;
  if (threads == 1 || plan->work < kInlineWork || block.chunk_count() < 2) return false;
  if (!IsOfDecode(block, group)) return false;
  const int64_t weight = block.work * kTasksPerThread * threads;
  if (weight > plan->work) return true;
  if (weight * call.kv_heads <= plan->work || block.chooses() || call.sparse_v > 0.0f) return false;
  // While so much is left that a part would be all of it, there is nothing to cut.
  if (PartOf(left, threads, block) >= block.chunk_count() * call.kv_heads) return false;
  const int64_t partials =
      FoldsWithOthers(block) ? 0 : block.chunk_count() * block.tokens * group * call.kv_heads;
  if (plan->turn_partials + partials > kMaxTurnPartials) return false;
  plan->turn_partials += partials;
  return true;
}

// One task for one KV head or several, or several tasks over their chunks. *left: the work that has no task yet.
void AddTasks(const AttentionCall& call, int threads, int32_t index, AttentionPlan* plan, int64_t* left) {
  QueryBlock& block = plan->blocks[static_cast<size_t>(index)];
  const int64_t group = call.q_heads / call.kv_heads;
  const int64_t queries = block.tokens * group;
  const int64_t chunks = block.chunk_count();
  const bool cut = DecideCut(call, threads, block, *left, plan);
  const bool split = cut || FoldsWithOthers(block);
  if (split) block.group = static_cast<int32_t>(plan->groups.size());
  for (int32_t head = 0; split && head < call.kv_heads; ++head) {
    for (int64_t page = 0; page < block.seen_pages; page += kPageTaskPages) {
      plan->page_tasks.push_back({index, head, page, std::min(page + kPageTaskPages, block.seen_pages)});
    }
    plan->groups.push_back({0, plan->partials});
    plan->partials += chunks * queries;
  }
  if (split && block.chooses()) plan->choosing_groups = static_cast<int64_t>(plan->groups.size());
  for (int32_t head = 0; head < call.kv_heads;) {
    const int32_t heads = std::min(HeadsOfTask(call, threads, block, cut, *left), call.kv_heads - head);
    plan->held_queries = std::max(plan->held_queries, heads * queries);
    AddTasksOf(index, head, heads, threads, cut, plan, left);
    head += heads;
  }
}

}  // namespace

int64_t AttentionPlan::bytes() const {
  return static_cast<int64_t>(blocks.capacity() * sizeof(QueryBlock) +
                              tasks.capacity() * sizeof(AttentionTask) +
                              members.capacity() * sizeof(int32_t) + groups.capacity() * sizeof(SplitGroup) +
                              page_tasks.capacity() * sizeof(PageTask));
}

void BuildPlan(const AttentionCall& call, int threads, AttentionPlan* plan) {
  plan->blocks.clear();
  plan->tasks.clear();
  plan->groups.clear();
  plan->members.clear();
  plan->page_tasks.clear();
  plan->seen_pages = plan->choosing_groups = 0;
  plan->max_queries = plan->held_queries = plan->partials = plan->turn_partials = plan->work = 0;
  const int64_t group = call.q_heads / call.kv_heads;
  const int64_t block_tokens = BlockTokens(call, group, threads);
  std::vector<int64_t> prefix_chunks(call.sequences.size());
  for (const SharedPrefix& prefix : FindSharedPrefixes(call)) {
    for (const int32_t s : prefix.sequences) prefix_chunks[static_cast<size_t>(s)] = prefix.chunks;
    AddSharedBlocks(call, prefix, plan);
  }
  for (size_t s = 0; s < call.sequences.size(); ++s)
    AddBlocks(call, static_cast<int32_t>(s), block_tokens, prefix_chunks[s], plan);
  // Later blocks see more; dear ones are handed out first.
  std::sort(plan->blocks.begin(), plan->blocks.end(), [](const QueryBlock& a, const QueryBlock& b) {
    return std::tuple(-a.work, a.sequence, a.token) < std::tuple(-b.work, b.sequence, b.token);
  });
  LinkMembers(plan);
  int64_t left = plan->work;
  for (size_t b = 0; b < plan->blocks.size(); ++b) {
    AddTasks(call, threads, static_cast<int32_t>(b), plan, &left);
  }
  CountSharedTasks(call, plan);
}

PlanBound BoundPlan(int q_heads, int kv_heads, int threads, int64_t tokens, int64_t chunks) {
  const int64_t group = q_heads / kv_heads;
  // Of a block that is cut for its weight each KV head has more than 1 / (kTasksPerThread * threads) of the work.
  const int64_t split =
      threads > 1 ? std::min((kTasksPerThread * threads - 1) / kv_heads, std::max<int64_t>(tokens, 0)) : 0;
  PlanBound bound;
  bound.queries = std::max(kBlockQueries, group);
  bound.groups = bound.split_groups = split * kv_heads;
  bound.partials = bound.groups * chunks * std::max(kSplitQueries, group);
  int64_t tasks = tokens * kv_heads + bound.groups * chunks;
  // A block that is cut only so that its heads take turns has more than that with all of them.
  const int64_t turning =
      threads > 1 && kv_heads > 1 ? std::min(kTasksPerThread * threads - 1, std::max<int64_t>(tokens, 0)) : 0;
  const int64_t turns =
      std::min(turning * kv_heads * chunks * std::max(kSplitQueries, group), kMaxTurnPartials);
  bound.partials += turns;
  bound.groups += turning * kv_heads;
  tasks += turns;
  // Cascade: every sequence may be a member, and blocks before them are no more than they.
  const int64_t shared = std::min(tokens * chunks * q_heads, kMaxCascadePartials);
  bound.partials += shared;
  bound.groups += 2 * tokens * kv_heads;
  tasks += shared;
  // Vectors double as they grow.
  bound.bytes = 2 * (2 * tokens * static_cast<int64_t>(sizeof(QueryBlock)) +
                     tokens * static_cast<int64_t>(sizeof(int32_t)) +
                     tasks * static_cast<int64_t>(sizeof(AttentionTask)) +
                     bound.groups * static_cast<int64_t>(sizeof(SplitGroup)));
  return bound;
}

}  // namespace holdfast
