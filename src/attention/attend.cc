// Attention over spans: cuts the call into tasks (plan.h) and runs the kernels of the codec and of the
// softmax.
#include "attention/attend.h"

#include <algorithm>
#include <new>

#include "attention/kernels/softmax_kernels.h"
#include "attention/page_choice.h"
#include "attention/plan.h"
#include "attention/workspace.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(SoftmaxKernels, kSoftmaxKernels)

namespace {

constexpr int kOutLanes = 16;
constexpr int kTilesAskedByScore = 4;
constexpr int64_t kAskedLines = 48;  // what the second-level cache can be waiting for

// One call, with what every task looks up.
class Attention {
 public:
  Attention(const AttentionCall& call, Isa isa, AttentionWorkspace::State& state);

  Status Prepare(int threads);
  void Run(ThreadPool& pool);

 private:
  // Where the partials of a task's chunks go.
  struct Partials {
    PartialHead* heads;
    float* o;
  };

  // One chunk of one KV head; nobody sees any of it if begin == end. `next` of K leads to V, that of V to the
  // K of the chunk after, so that memory is asked for ahead of need.
  struct ChunkRows {
    ChunkTiles k;
    ChunkTiles v;  // unused for a latent row
  };

  // What a pair of codecs brings. A call has one, or a second for protected rows.
  struct Part {
    Part(const AttentionCall& call, const KvSpec& codecs, Isa isa);
    const KeyKernels& key;
    const ValueKernels& value;
    RowFormat k_format;
    RowFormat v_format;  // of the tiles that V is read from
    int64_t prepared_bytes;
    int64_t k_tile_bytes;
    int64_t v_tile_bytes;  // 0 for a latent row
  };

  // The ordinal-th of a block's chunks, in the order in which their partials are folded.
  struct ChunkId {
    bool kept;  // of the protected rows
    int64_t chunk;
  };
  static ChunkId ChunkAt(const QueryBlock& block, int64_t ordinal) {
    const int64_t first = block.chunks.count();
    if (ordinal < first) return {false, block.chunks.At(ordinal)};
    return {true, block.protected_chunks.At(ordinal - first)};
  }
  const Part& PartOf(ChunkId id) const { return id.kept ? *protected_ : main_; }
  static const VisibleRange& VisibleTo(const AttentionSequence& sequence, int64_t token, bool kept) {
    return (kept ? sequence.protected_visible : sequence.visible)[static_cast<size_t>(token)];
  }
  std::byte* PreparedFor(bool kept, const ThreadScratch& scratch) const {
    return scratch.prepared + (kept ? state_.plan.max_queries * main_.prepared_bytes : 0);
  }

  void ChooseSharedPages(ThreadPool& pool);
  PageChoice ChoiceOf(const AttentionTask& task, const ThreadScratch& scratch) const;
  void RunTask(const AttentionTask& task, ThreadScratch scratch);
  void PrepareQueries(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const;
  float ScoreOffset(const float* query, int kv_head) const;
  void Locate(const QueryBlock& block, int kv_head, ChunkId id, const PageChoice& choice,
              ChunkRows* rows) const;
  void ScoreReference(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const;
  void ScoreChunk(const QueryBlock& block, ChunkId id, const ChunkRows& rows, const ThreadScratch& scratch,
                  PartialHead* heads) const;
  void DropSmall(int queries, ChunkRows* rows, const ThreadScratch& scratch, const PartialHead* heads) const;
  void ComputeChunk(const QueryBlock& block, ChunkId id, ChunkRows* rows, const ThreadScratch& scratch,
                    const Partials& to) const;
  void AskForV(const ChunkTiles& v, int64_t v_tile_bytes) const;
  void Leave(const QueryBlock& block, int kv_head);
  void FoldGroup(const QueryBlock& block, int kv_head) const;
  void Finish(const QueryBlock& block, int kv_head, const Partials& done) const;
  // Of a split block's chunk.
  Partials PartialOf(const QueryBlock& block, int kv_head, int64_t ordinal) const {
    const SplitGroup& group =
        state_.plan.groups[static_cast<size_t>(block.group) + static_cast<size_t>(kv_head)];
    const int64_t at = group.partial + ordinal * Queries(block);
    return {state_.partial_heads() + at, state_.partial_o() + at * o_stride_};
  }
  int64_t QueryRow(const QueryBlock& block, int64_t token) const {
    const QueryToken query = state_.plan.TokenOf(block, token);
    return call_.sequences[static_cast<size_t>(query.sequence)].first_token + query.token;
  }
  ChunkView ViewOf(const QueryBlock& block, int64_t token, ChunkId id, const PageChoice& choice) const {
    if (block.chooses() && !id.kept) return ViewOfChunk(choice.visible, id.chunk);
    const QueryToken query = state_.plan.TokenOf(block, token);
    return ViewOfChunk(VisibleTo(call_.sequences[static_cast<size_t>(query.sequence)], query.token, id.kept),
                       id.chunk);
  }
  int Queries(const QueryBlock& block) const { return static_cast<int>(block.tokens) * group_; }

  const AttentionCall& call_;
  AttentionWorkspace::State& state_;
  const SoftmaxKernels& softmax_;
  Part main_;
  std::optional<Part> protected_;
  PageChooser chooser_;
  bool latent_;
  bool sparse_;
  ScoreRule rule_;
  int group_;  // query heads of a KV head
  int64_t o_stride_;
};

Attention::Part::Part(const AttentionCall& call, const KvSpec& codecs, Isa isa)
    : key(GetCodec(codecs.k).kernels(isa).key),
      value(call.shape.v_is_prefix_of_k ? GetCodec(codecs.k).kernels(isa).latent_value
                                        : GetCodec(codecs.v).kernels(isa).value),
      k_format(call.shape.k_dim, codecs.k.group),
      v_format(call.shape.v_is_prefix_of_k ? k_format : RowFormat(call.shape.v_dim, codecs.v.group)),
      prepared_bytes(key.prepared_bytes(k_format)),
      k_tile_bytes(GetCodec(codecs.k).k_tile_bytes(k_format)),
      v_tile_bytes(call.shape.v_is_prefix_of_k ? 0 : GetCodec(codecs.v).v_tile_bytes(v_format)) {}

Attention::Attention(const AttentionCall& call, Isa isa, AttentionWorkspace::State& state)
    : call_(call),
      state_(state),
      softmax_(HOLDFAST_SELECT_KERNELS(isa, kSoftmaxKernels)),
      main_(call, KvSpec{call.k_codec, call.v_codec}, isa),
      chooser_(call, isa),
      latent_(call.shape.v_is_prefix_of_k),
      sparse_(call.sparse_v > 0.0f),
      rule_(MakeScoreRule(call.rule.scale, call.rule.softcap)),
      group_(call.q_heads / call.kv_heads),
      o_stride_(RoundUp(call.shape.v_dim, kOutLanes)) {
  if (call.protected_codecs.has_value()) protected_.emplace(call, *call.protected_codecs, isa);
}

Status Attention::Prepare(int threads) {
  BuildPlan(call_, threads, &state_.plan);
  const AttentionPlan& plan = state_.plan;
  ScratchSizes sizes;
  sizes.threads = threads;
  sizes.queries = plan.max_queries;
  sizes.prepared_bytes = main_.prepared_bytes + (protected_ ? protected_->prepared_bytes : 0);
  sizes.o_stride = o_stride_;
  // Zeros stand in for tiles that are not stored and for queries that are not finite.
  sizes.hole_bytes = std::max(
      {main_.k_tile_bytes, main_.v_tile_bytes, call_.shape.k_dim * static_cast<int64_t>(sizeof(float))});
  if (protected_) {
    sizes.hole_bytes = std::max({sizes.hole_bytes, protected_->k_tile_bytes, protected_->v_tile_bytes});
  }
  sizes.partials = plan.partials;
  sizes.groups = static_cast<int64_t>(plan.groups.size());
  if (plan.seen_pages > 0) {
    sizes.query_halves = chooser_.halves();
    sizes.page_heads = group_;
    sizes.page_stride = PageChooser::Stride(plan.seen_pages);
    sizes.sparse_pages = call_.sparse_pages;
    sizes.choosing_groups = plan.page_tasks.empty() ? 0 : sizes.groups;
  }
  HF_RETURN_IF_ERROR(state_.Fit(sizes));
  return OkStatus();
}

// Of blocks that several tasks attend: their pages are bounded in parts, and whoever ends last chooses.
void Attention::ChooseSharedPages(ThreadPool& pool) {
  const std::vector<PageTask>& tasks = state_.plan.page_tasks;
  if (tasks.empty()) return;
  const auto group = [&](const PageTask& task) {
    return state_.plan.blocks[static_cast<size_t>(task.block)].group + task.kv_head;
  };
  for (const PageTask& task : tasks) state_.left(group(task)).store(0, std::memory_order_relaxed);
  for (const PageTask& task : tasks) state_.left(group(task)).fetch_add(1, std::memory_order_relaxed);
  const int64_t stride = PageChooser::Stride(state_.plan.seen_pages);
  const auto run = [&](int64_t i, int thread) {
    const PageTask& task = tasks[static_cast<size_t>(i)];
    const QueryBlock& block = state_.plan.blocks[static_cast<size_t>(task.block)];
    const AttentionSequence& sequence = call_.sequences[static_cast<size_t>(block.sequence)];
    float* bounds = state_.group_bounds(group(task));
    chooser_.Bound(sequence, block.token, task.kv_head, task.begin, task.end, state_.Thread(thread).halves,
                   bounds, stride);
    if (state_.left(group(task)).fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    chooser_.Choose(VisibleTo(sequence, block.token, false), bounds, stride, state_.group_pages(group(task)));
  };
  pool.ParallelFor(static_cast<int64_t>(tasks.size()), run);
}

PageChoice Attention::ChoiceOf(const AttentionTask& task, const ThreadScratch& scratch) const {
  const QueryBlock& block = state_.plan.blocks[static_cast<size_t>(task.block)];
  if (!block.chooses()) return {};
  const AttentionSequence& sequence = call_.sequences[static_cast<size_t>(block.sequence)];
  const VisibleRange& visible = VisibleTo(sequence, block.token, false);
  PageChoice choice = {.pages = scratch.pages,
                       .count = call_.sparse_pages,
                       .visible = GatheredRange(visible, call_.sparse_pages)};
  if (block.group >= 0) {
    choice.pages = state_.group_pages(block.group + task.kv_head);
    return choice;
  }
  const int64_t stride = PageChooser::Stride(state_.plan.seen_pages);
  chooser_.Bound(sequence, block.token, task.kv_head, 0, block.seen_pages, scratch.halves, scratch.bounds,
                 stride);
  chooser_.Choose(visible, scratch.bounds, stride, scratch.pages);
  return choice;
}

void Attention::Run(ThreadPool& pool) {
  ChooseSharedPages(pool);
  const std::vector<SplitGroup>& groups = state_.plan.groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    state_.left(static_cast<int64_t>(g)).store(groups[g].tasks, std::memory_order_relaxed);
  }
  const std::vector<AttentionTask>& tasks = state_.plan.tasks;
  if (pool.threads() == 1 || state_.plan.work < kInlineWork) {
    const ThreadScratch scratch = state_.Thread(0);
    for (const AttentionTask& task : tasks) RunTask(task, scratch);
    return;
  }
  const auto run = [&](int64_t task, int thread) {
    RunTask(tasks[static_cast<size_t>(task)], state_.Thread(thread));
  };
  pool.ParallelFor(static_cast<int64_t>(tasks.size()), run);
}

void Attention::RunTask(const AttentionTask& task, ThreadScratch scratch) {
  const QueryBlock& block = state_.plan.blocks[static_cast<size_t>(task.block)];
  const int queries = Queries(block);
  const bool split = block.group >= 0;
  const Partials run = {scratch.run_heads, scratch.run_o};
  const Partials one = {scratch.chunk_heads, scratch.chunk_o};
  scratch.choice = ChoiceOf(task, scratch);
  PrepareQueries(block, task.kv_head, scratch);
  if (sparse_) ScoreReference(block, task.kv_head, scratch);
  std::fill_n(run.heads, queries, PartialHead{});
  ChunkRows rows[2];
  const int64_t end = task.first + task.count;
  if (task.count > 0)
    Locate(block, task.kv_head, ChunkAt(block, task.first), scratch.choice, &rows[task.first % 2]);
  for (int64_t c = task.first; c < end; ++c) {
    ChunkRows& here = rows[c % 2];
    ChunkRows& after = rows[(c + 1) % 2];
    if (c + 1 < end) Locate(block, task.kv_head, ChunkAt(block, c + 1), scratch.choice, &after);
    (latent_ ? here.k : here.v).next = c + 1 < end ? &after.k : nullptr;
    // A split block leaves each chunk's partial; otherwise, as merge(empty, x) = x, the first is the running
    // one.
    ComputeChunk(block, ChunkAt(block, c), &here, scratch,
                 split    ? PartialOf(block, task.kv_head, c)
                 : c == 0 ? run
                          : one);
    if (!split && c > 0) softmax_.merge(run.heads, run.o, one.heads, one.o, queries, o_stride_);
  }
  if (!split) {
    Finish(block, task.kv_head, run);
  } else if (block.several_sequences()) {
    for (int64_t i = 0; i < block.tokens; ++i) {
      const int32_t member = state_.plan.members[static_cast<size_t>(block.first_member + i)];
      Leave(state_.plan.blocks[static_cast<size_t>(member)], task.kv_head);
    }
  } else {
    Leave(block, task.kv_head);
  }
}

// One task fewer; whoever ends last sees the others' partials.
void Attention::Leave(const QueryBlock& block, int kv_head) {
  if (state_.left(block.group + kv_head).fetch_sub(1, std::memory_order_acq_rel) == 1)
    FoldGroup(block, kv_head);
}

void Attention::PrepareQueries(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const {
  const int k_dim = call_.shape.k_dim;
  for (int i = 0; i < Queries(block); ++i) {
    const int64_t row = QueryRow(block, i / group_) * call_.q_heads + kv_head * group_ + i % group_;
    const float* query = call_.q + row * k_dim;
    // A codec that quantises the query could lose a NaN on the way, so it is noticed here.
    scratch.poisoned[i] = !softmax_.all_finite(query, k_dim);
    const float* finite = scratch.poisoned[i] ? reinterpret_cast<const float*>(state_.hole()) : query;
    scratch.offsets[i] = ScoreOffset(finite, kv_head);
    for (const bool kept : {false, true}) {
      if ((kept ? block.protected_chunks : block.chunks).count() == 0) continue;
      const Part& part = kept ? *protected_ : main_;
      part.key.prepare(finite, part.k_format, PreparedFor(kept, scratch) + i * part.prepared_bytes);
    }
  }
}

// <query, centre of K>, where it matters: softmax cancels what all scores share, a soft-cap or a sink does not.
float Attention::ScoreOffset(const float* query, int kv_head) const {
  if (call_.k_center == nullptr || (rule_.cap == 0.0f && call_.rule.sink_logits == nullptr)) return 0.0f;
  const float* center = call_.k_center + int64_t{kv_head} * call_.shape.k_dim;
  double sum = 0.0;
  for (int d = 0; d < call_.shape.k_dim; ++d) {
    sum += static_cast<double>(query[d]) * static_cast<double>(center[d]);
  }
  return static_cast<float>(sum);
}

void Attention::Locate(const QueryBlock& block, int kv_head, ChunkId id, const PageChoice& choice,
                       ChunkRows* rows) const {
  const AttentionSequence& sequence = call_.sequences[static_cast<size_t>(block.sequence)];
  int begin = kChunkRows;
  int end = 0;
  for (int64_t t = 0; t < block.tokens; ++t) {
    const ChunkView view = ViewOf(block, t, id, choice);
    if (view.empty()) continue;
    begin = std::min(begin, view.begin0 < view.end0 ? view.begin0 : view.begin1);
    end = std::max({end, view.end0, view.end1});
  }
  rows->k.begin = rows->v.begin = begin < end ? begin / kTileRows : 0;
  rows->k.end = rows->v.end = (end + kTileRows - 1) / kTileRows;
  rows->k.next = latent_ || sparse_ ? nullptr : &rows->v;
  rows->v.next = nullptr;
  const Part& part = PartOf(id);
  if (block.chooses() && !id.kept) {
    LocatePages(sequence.spans, choice.pages, id.chunk, kv_head, part.k_tile_bytes, part.v_tile_bytes,
                &rows->k, latent_ ? nullptr : &rows->v);
    return;
  }
  LocateTiles(id.kept ? sequence.protected_spans : sequence.spans, id.chunk, kv_head, part.k_tile_bytes,
              part.v_tile_bytes, state_.hole(), &rows->k, latent_ ? nullptr : &rows->v);
}

// The score kernel asks for the first tiles; the next ones arrive while the softmax reads no memory.
void Attention::AskForV(const ChunkTiles& v, int64_t v_tile_bytes) const {
  int64_t left = kAskedLines;
  for (int i = v.begin + kTilesAskedByScore; i < v.end && left > 0; ++i) {
    for (int64_t at = 0; at < v_tile_bytes && left > 0; at += 64, --left)
      __builtin_prefetch(v.tile[i] + at, 0, 2);
  }
}

// Leaves the chunk's weights in scratch.scores. REQUIRES rows that some query sees.
void Attention::ScoreChunk(const QueryBlock& block, ChunkId id, const ChunkRows& rows,
                           const ThreadScratch& scratch, PartialHead* heads) const {
  const int queries = Queries(block);
  for (int64_t t = 0; t < block.tokens; ++t) {
    std::fill_n(scratch.views + t * group_, group_, ViewOf(block, t, id, scratch.choice));
  }
  const Part& part = PartOf(id);
  part.key.score(PreparedFor(id.kept, scratch), queries, part.k_format, rows.k, scratch.scores);
  if (!latent_ && !sparse_) AskForV(rows.v, part.v_tile_bytes);
  softmax_.softmax(scratch.scores, scratch.views, scratch.poisoned, scratch.offsets, queries, rows.k.begin,
                   rows.k.end, rule_, heads);
}

// The first chunk as far as each query sees it, protected rows and others.
void Attention::ScoreReference(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const {
  const int queries = Queries(block);
  std::fill_n(scratch.reference, queries, PartialHead{});
  for (const bool kept : {false, true}) {
    if (!(kept ? block.protected_chunks : block.chunks).HasFirst()) continue;
    ChunkRows rows;
    Locate(block, kv_head, {kept, 0}, scratch.choice, &rows);
    if (rows.k.begin == rows.k.end) continue;
    ScoreChunk(block, {kept, 0}, rows, scratch, scratch.chunk_heads);
    softmax_.merge(scratch.reference, nullptr, scratch.chunk_heads, nullptr, queries, 0);
  }
}

// Tiles of which no query has a weight left are not read: zeros stand in for them.
void Attention::DropSmall(int queries, ChunkRows* rows, const ThreadScratch& scratch,
                          const PartialHead* heads) const {
  ChunkTiles& tiles = latent_ ? rows->k : rows->v;
  const uint32_t left = softmax_.drop_small(scratch.scores, queries, tiles.begin, tiles.end, heads,
                                            scratch.reference, call_.sparse_v);
  for (int i = tiles.begin; i < tiles.end; ++i) {
    if ((left >> i & 1) == 0) tiles.tile[i] = state_.hole();
  }
}

void Attention::ComputeChunk(const QueryBlock& block, ChunkId id, ChunkRows* rows,
                             const ThreadScratch& scratch, const Partials& to) const {
  const int queries = Queries(block);
  if (rows->k.begin == rows->k.end) {
    std::fill_n(to.heads, queries, PartialHead{});
    return;
  }
  ScoreChunk(block, id, *rows, scratch, to.heads);
  if (sparse_) DropSmall(queries, rows, scratch, to.heads);
  const Part& part = PartOf(id);
  part.value.accumulate(scratch.scores, queries, call_.shape.v_dim, part.v_format,
                        latent_ ? rows->k : rows->v, to.o, o_stride_);
}

// In ascending chunks: those of the block before, of which this one's queries are a part, then its own.
void Attention::FoldGroup(const QueryBlock& block, int kv_head) const {
  const int queries = Queries(block);
  std::optional<Partials> first;
  const auto fold = [&](const Partials& one) {
    if (!first) {
      first = one;
    } else {
      softmax_.merge(first->heads, first->o, one.heads, one.o, queries, o_stride_);
    }
  };
  if (block.prefix >= 0) {
    const QueryBlock& before = state_.plan.blocks[static_cast<size_t>(block.prefix)];
    const int64_t skip = int64_t{block.prefix_token} * group_;
    for (int64_t c = 0; c < before.chunk_count(); ++c) {
      const Partials all = PartialOf(before, kv_head, c);
      fold({all.heads + skip, all.o + skip * o_stride_});
    }
  }
  for (int64_t c = 0; c < block.chunk_count(); ++c) fold(PartialOf(block, kv_head, c));
  Finish(block, kv_head, *first);
}

void Attention::Finish(const QueryBlock& block, int kv_head, const Partials& done) const {
  const int v_dim = call_.shape.v_dim;
  const float* center = call_.v_center == nullptr ? nullptr : call_.v_center + int64_t{kv_head} * v_dim;
  for (int i = 0; i < Queries(block); ++i) {
    const int head = kv_head * group_ + i % group_;
    const float sink_m =
        call_.rule.sink_logits == nullptr ? kEmptyMax : kLog2E * call_.rule.sink_logits[head];
    float* out = call_.out + (QueryRow(block, i / group_) * call_.q_heads + head) * v_dim;
    softmax_.finish(done.heads[i], done.o + i * o_stride_, sink_m, center, v_dim, out);
  }
}

}  // namespace

Status Attend(const AttentionCall& call, Isa isa, AttentionWorkspace& workspace, ThreadPool& pool) {
  try {
    Attention attention(call, isa, workspace.state());
    HF_RETURN_IF_ERROR(attention.Prepare(pool.threads()));
    attention.Run(pool);
    return OkStatus();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("attend: no memory for the plan of " + std::to_string(call.sequences.size()) +
                             " sequences");
  }
}

}  // namespace holdfast
