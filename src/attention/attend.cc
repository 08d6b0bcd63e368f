// Attention over spans: cuts the call into tasks (plan.h) and runs the kernels of the codec and of the
// softmax.
#include "attention/attend.h"

#include <algorithm>
#include <new>

#include "attention/attention_run.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(SoftmaxKernels, kSoftmaxKernels)

namespace {

constexpr int kOutLanes = 16;

}  // namespace

AttentionRun::Part::Part(const AttentionCall& call, const KvSpec& codecs, int64_t prepared_before, Isa isa)
    : key(GetCodec(codecs.k).kernels(isa).key),
      value(call.shape.v_is_prefix_of_k ? GetCodec(codecs.k).kernels(isa).latent_value
                                        : GetCodec(codecs.v).kernels(isa).value),
      k_format(call.shape.k_dim, codecs.k.group),
      v_format(call.shape.v_is_prefix_of_k ? k_format : RowFormat(call.shape.v_dim, codecs.v.group)),
      prepared_bytes(key.prepared_bytes(k_format)),
      prepared_at(prepared_before),
      k_tile_bytes(GetCodec(codecs.k).k_tile_bytes(k_format)),
      v_tile_bytes(call.shape.v_is_prefix_of_k ? 0 : GetCodec(codecs.v).v_tile_bytes(v_format)) {}

AttentionRun::AttentionRun(const AttentionCall& call, Isa isa, AttentionWorkspace::State& state)
    : call_(call),
      state_(state),
      softmax_(HOLDFAST_SELECT_KERNELS(isa, kSoftmaxKernels)),
      main_(call, KvSpec{call.k_codec, call.v_codec}, 0, isa),
      chooser_(call, isa),
      latent_(call.shape.v_is_prefix_of_k),
      sparse_(call.sparse_v > 0.0f),
      rule_(MakeScoreRule(call.rule.scale, call.rule.softcap)),
      group_(call.q_heads / call.kv_heads),
      o_stride_(RoundUp(call.shape.v_dim, kOutLanes)) {
  if (call.protected_codecs.has_value()) {
    protected_.emplace(call, *call.protected_codecs, main_.prepared_bytes, isa);
  }
}

Status AttentionRun::Prepare(int threads) {
  BuildPlan(call_, threads, &state_.plan);
  const AttentionPlan& plan = state_.plan;
  ScratchSizes sizes;
  sizes.threads = threads;
  sizes.queries = plan.max_queries;
  sizes.held_queries = plan.held_queries;
  sizes.prepared_bytes = PreparedBytes();
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
    sizes.choosing_groups = plan.choosing_groups;
  }
  HF_RETURN_IF_ERROR(state_.Fit(sizes));
  return OkStatus();
}

// Of blocks that several tasks attend: their pages are bounded in parts, and whoever ends last chooses.
void AttentionRun::ChooseSharedPages(ThreadPool& pool) {
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

// `pages` that a block's token has chosen.
PageChoice AttentionRun::ChoiceOf(const QueryBlock& block, const int64_t* pages) const {
  const AttentionSequence& sequence = call_.sequences[static_cast<size_t>(block.sequence)];
  return {.pages = pages,
          .count = call_.sparse_pages,
          .visible = GatheredRange(VisibleTo(sequence, block.token, false), call_.sparse_pages)};
}

PageChoice AttentionRun::ChoosePages(const QueryBlock& block, int kv_head,
                                     const ThreadScratch& scratch) const {
  const AttentionSequence& sequence = call_.sequences[static_cast<size_t>(block.sequence)];
  const int64_t stride = PageChooser::Stride(state_.plan.seen_pages);
  chooser_.Bound(sequence, block.token, kv_head, 0, block.seen_pages, scratch.halves, scratch.bounds, stride);
  chooser_.Choose(VisibleTo(sequence, block.token, false), scratch.bounds, stride, scratch.pages);
  return ChoiceOf(block, scratch.pages);
}

void AttentionRun::Run(ThreadPool& pool) {
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

// What is kept of each of a task's heads, of this one.
ThreadScratch AttentionRun::ScratchOfHead(const QueryBlock& block, const AttentionTask& task, int kv_head,
                                          ThreadScratch scratch) const {
  const int64_t before = int64_t{kv_head - task.kv_head} * Queries(block);
  scratch.prepared += before * PreparedBytes();
  scratch.poisoned += before;
  scratch.offsets += before;
  scratch.reference += before;
  scratch.run_heads += before;
  scratch.run_o += before * o_stride_;
  if (block.chooses() && block.group >= 0) {  // ChooseSharedPages chose
    scratch.choice = ChoiceOf(block, state_.group_pages(block.group + kv_head));
  }
  return scratch;
}

void AttentionRun::PrepareTask(const QueryBlock& block, const AttentionTask& task, const ThreadScratch& all) {
  for (int32_t head = task.kv_head; head < task.kv_head + task.heads; ++head) {
    if (!task.Touches(head)) continue;
    const ThreadScratch scratch = ScratchOfHead(block, task, head, all);
    std::fill_n(scratch.run_heads, Queries(block), PartialHead{});
    PrepareQueries(block, head, scratch);
    if (sparse_) ScoreReference(block, head, scratch);
  }
}

void AttentionRun::RunTask(const AttentionTask& task, ThreadScratch all) {
  const QueryBlock& block = state_.plan.blocks[static_cast<size_t>(task.block)];
  const bool split = block.group >= 0;
  const int queries = Queries(block);
  if (block.chooses() && !split) all.choice = ChoosePages(block, task.kv_head, all);
  PrepareTask(block, task, all);
  ChunkRows rows[2];
  ThreadScratch scratches[2];
  const auto locate = [&](int64_t step) {
    const int32_t head = task.HeadOf(step);
    scratches[step % 2] = ScratchOfHead(block, task, head, all);
    Locate(block, head, ChunkAt(block, task.ChunkOf(step)), scratches[step % 2].choice, &rows[step % 2]);
  };
  const int64_t end = task.first + task.count;
  if (task.count > 0) locate(task.first);
  for (int64_t step = task.first; step < end; ++step) {
    ChunkRows& here = rows[step % 2];
    const ThreadScratch& scratch = scratches[step % 2];
    if (step + 1 < end) locate(step + 1);
    (latent_ ? here.k : here.v).next = step + 1 < end ? &rows[(step + 1) % 2].k : nullptr;
    const int64_t chunk = task.ChunkOf(step);
    const Partials run = {scratch.run_heads, scratch.run_o};
    const Partials one = {scratch.chunk_heads, scratch.chunk_o};
    // A split block leaves each chunk's partial; otherwise, as merge(empty, x) = x, the first is the running
    // one.
    ComputeChunk(block, ChunkAt(block, chunk), &here, scratch,
                 split        ? PartialOf(block, task.HeadOf(step), chunk)
                 : chunk == 0 ? run
                              : one);
    if (!split && chunk > 0) softmax_.merge(run.heads, run.o, one.heads, one.o, queries, o_stride_);
  }
  LeaveTask(block, task, all);
}

void AttentionRun::LeaveTask(const QueryBlock& block, const AttentionTask& task, const ThreadScratch& all) {
  for (int32_t head = task.kv_head; head < task.kv_head + task.heads; ++head) {
    if (!task.Touches(head)) continue;
    if (block.group >= 0) {
      LeaveBlock(block, head);
    } else {
      const ThreadScratch scratch = ScratchOfHead(block, task, head, all);
      Finish(block, head, {scratch.run_heads, scratch.run_o});
    }
  }
}

// A task of the block is done for the head: of each of its members, where it is of several sequences.
void AttentionRun::LeaveBlock(const QueryBlock& block, int kv_head) {
  if (!block.several_sequences()) return Leave(block, kv_head);
  for (int64_t i = 0; i < block.tokens; ++i) {
    const int32_t member = state_.plan.members[static_cast<size_t>(block.first_member + i)];
    Leave(state_.plan.blocks[static_cast<size_t>(member)], kv_head);
  }
}

// One task fewer; whoever ends last sees the others' partials.
void AttentionRun::Leave(const QueryBlock& block, int kv_head) {
  if (state_.left(block.group + kv_head).fetch_sub(1, std::memory_order_acq_rel) == 1)
    FoldGroup(block, kv_head);
}

void AttentionRun::PrepareQueries(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const {
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
      part.key.prepare(finite, part.k_format,
                       PreparedFor(part, Queries(block), scratch) + i * part.prepared_bytes);
    }
  }
}

Status Attend(const AttentionCall& call, Isa isa, AttentionWorkspace& workspace, ThreadPool& pool) {
  try {
    AttentionRun attention(call, isa, workspace.state());
    HF_RETURN_IF_ERROR(attention.Prepare(pool.threads()));
    attention.Run(pool);
    return OkStatus();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("attend: no memory for the plan of " + std::to_string(call.sequences.size()) +
                             " sequences");
  }
}

}  // namespace holdfast
