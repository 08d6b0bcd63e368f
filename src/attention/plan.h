// How a call's work is cut into tasks. No cut changes a bit of the result: a query's chunks are computed by
// the same kernels and folded in the same order whichever task does which of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/attend.h"

namespace holdfast {

// Queries the kernels see at once. Their scores, a kibibyte each, stay in the second-level cache.
inline constexpr int64_t kBlockQueries = 64;

// The chunks that the queries of a block see: [0, sink_end) and [begin, end), sink_end <= begin.
struct ChunkSet {
  int64_t sink_end = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return sink_end + (end - begin); }
  bool HasFirst() const { return sink_end > 0 || (begin == 0 && end > 0); }
  // Chunk number of the ordinal-th of them, ascending.
  int64_t At(int64_t ordinal) const { return ordinal < sink_end ? ordinal : begin + (ordinal - sink_end); }
};

// One of a sequence's query tokens.
struct QueryToken {
  int32_t sequence = 0;
  int64_t token = 0;
};

// Successive query tokens of one sequence, or one token each of several sequences that share the block's chunks in
// memory; with all query heads of one KV head they are a set of queries that the kernels see together. Query i of the set
// is token i / G, head i % G of the KV head's G.
struct QueryBlock {
  int32_t sequence = 0;  // of the first token
  int64_t token = 0;     // of the sequence's queries
  int64_t tokens = 0;
  ChunkSet chunks;
  ChunkSet protected_chunks;  // folded after the others
  int64_t work = 0;           // multiply-adds of one KV head
  int32_t group = -1;         // first of its kv_heads split groups, or -1: each KV head is of one task
  // Of several sequences: token i is that of the block plan.members[first_member + i], whose chunks come after.
  int64_t first_member = -1;
  // Where such a block comes before this one: its index, and which of its tokens is this one's.
  int32_t prefix = -1;
  int32_t prefix_token = 0;
  // One token that chooses among `seen_pages` pages; chunks are of gathered positions (page_choice.h). 0: it sees all.
  int64_t seen_pages = 0;

  bool chooses() const { return seen_pages > 0; }

  bool several_sequences() const { return first_member >= 0; }

  int64_t chunk_count() const { return chunks.count() + protected_chunks.count(); }
};

// A part of a block's chunks, run by one thread: for one KV head, or for several in turn, chunk by chunk. What lies
// behind one head's rows in memory is the next head's, so that what the processor asks for past the end of the former is
// wanted soon.
struct AttentionTask {
  int32_t block = 0;
  int32_t kv_head = 0;  // the first of `heads`
  int32_t heads = 1;
  // Steps [first, first + count): step s is chunk ordinal s / heads of head kv_head + s % heads.
  int64_t first = 0;
  int64_t count = 0;

  int64_t ChunkOf(int64_t step) const { return step / heads; }
  int32_t HeadOf(int64_t step) const { return kv_head + static_cast<int32_t>(step % heads); }
  // The heads that its steps are of; all of them where it has no step.
  bool Touches(int32_t head) const {
    if (head < kv_head || head >= kv_head + heads) return false;
    return count == 0 || (head - kv_head - first % heads + heads) % heads < count;
  }
};

// Some of the pages that a block chooses among, where several tasks attend what is chosen: bounded before those run.
struct PageTask {
  int32_t block = 0;
  int32_t kv_head = 0;
  int64_t begin = 0;  // pages [begin, end) of those seen
  int64_t end = 0;
};

// Pages of a PageTask.
inline constexpr int64_t kPageTaskPages = 256;

// A (block, KV head) whose chunks are spread over several tasks, or folded with another block's: each chunk leaves a
// partial, and the task that ends last folds them in ascending order.
struct SplitGroup {
  int32_t tasks = 0;    // its own and those of the block before it
  int64_t partial = 0;  // index of its first partial: chunk ordinal c, query i is partial + c * queries + i
};

struct AttentionPlan {
  std::vector<QueryBlock> blocks;
  std::vector<AttentionTask> tasks;  // of dear blocks first, shorter as less is left: threads end together
  std::vector<SplitGroup> groups;
  std::vector<PageTask> page_tasks;
  std::vector<int32_t> members;  // blocks that share a block before them
  int64_t max_queries = 0;       // of one task and head
  int64_t held_queries = 0;      // of one task, all heads
  int64_t partials = 0;          // of all groups
  int64_t turn_partials = 0;     // of blocks that are cut only so that their heads take turns
  int64_t seen_pages = 0;        // most of a block that chooses
  int64_t choosing_groups = 0;   // groups before this one have bounds and pages where their block chooses
  int64_t work = 0;              // multiply-adds of the whole call

  int64_t bytes() const;
  QueryToken TokenOf(const QueryBlock& block, int64_t i) const {
    if (!block.several_sequences()) return {block.sequence, block.token + i};
    const QueryBlock& member =
        blocks[static_cast<size_t>(members[static_cast<size_t>(block.first_member + i)])];
    return {member.sequence, member.token};
  }
};

// Below this many multiply-adds a call runs on its caller: waking a thread would cost more than it brings.
inline constexpr int64_t kInlineWork = 300'000;

// Replaces *plan. May throw std::bad_alloc (Attend turns it into a Status).
void BuildPlan(const AttentionCall& call, int threads, AttentionPlan* plan);

// The most that BuildPlan makes of any call of at most `tokens` queries each of which sees rows of at most `chunks` chunks.
struct PlanBound {
  int64_t queries = 0;  // AttentionPlan::max_queries, and held_queries
  int64_t partials = 0;
  int64_t groups = 0;
  int64_t split_groups = 0;  // of blocks cut for a KV head's weight; AttentionPlan::choosing_groups
  int64_t bytes = 0;
};
PlanBound BoundPlan(int q_heads, int kv_heads, int threads, int64_t tokens, int64_t chunks);

}  // namespace holdfast
