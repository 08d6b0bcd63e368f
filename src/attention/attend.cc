// Attention over spans: cuts the call into tasks (plan.h) and runs the kernels of the codec and of the
// softmax.
#include "attention/attend.h"

#include <algorithm>
#include <new>

#include "attention/kernels/softmax_kernels.h"
#include "attention/plan.h"
#include "attention/workspace.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(SoftmaxKernels, kSoftmaxKernels)

namespace {

constexpr int kOutLanes = 16;

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

  void RunTask(const AttentionTask& task, const ThreadScratch& scratch);
  void PrepareQueries(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const;
  void ComputeChunk(const QueryBlock& block, int kv_head, int64_t chunk, const ThreadScratch& scratch,
                    const Partials& to) const;
  void FoldGroup(const QueryBlock& block, int kv_head, const SplitGroup& group) const;
  void Finish(const QueryBlock& block, int kv_head, const Partials& done) const;
  int Queries(const QueryBlock& block) const { return static_cast<int>(block.tokens) * group_; }

  const AttentionCall& call_;
  AttentionWorkspace::State& state_;
  const SoftmaxKernels& softmax_;
  const KeyKernels& key_;
  const ValueKernels& value_;
  bool latent_;
  ScoreRule rule_;
  int group_;  // query heads of a KV head
  int64_t prepared_bytes_;
  int64_t o_stride_;
  int64_t k_tile_bytes_;
  int64_t v_tile_bytes_ = 0;
};

Attention::Attention(const AttentionCall& call, Isa isa, AttentionWorkspace::State& state)
    : call_(call),
      state_(state),
      softmax_(HOLDFAST_SELECT_KERNELS(isa, kSoftmaxKernels)),
      key_(GetCodec(call.k_codec).kernels(isa).key),
      value_(call.shape.v_is_prefix_of_k ? GetCodec(call.k_codec).kernels(isa).latent_value
                                         : GetCodec(call.v_codec).kernels(isa).value),
      latent_(call.shape.v_is_prefix_of_k),
      rule_(MakeScoreRule(call.rule.scale, call.rule.softcap)),
      group_(call.q_heads / call.kv_heads),
      prepared_bytes_(key_.prepared_bytes(call.shape.k_dim)),
      o_stride_(RoundUp(call.shape.v_dim, kOutLanes)),
      k_tile_bytes_(GetCodec(call.k_codec).k_tile_bytes(call.shape.k_dim)) {
  if (!latent_) v_tile_bytes_ = GetCodec(call.v_codec).v_tile_bytes(call.shape.v_dim);
}

Status Attention::Prepare(int threads) {
  BuildPlan(call_, threads, &state_.plan);
  const AttentionPlan& plan = state_.plan;
  ScratchSizes sizes;
  sizes.threads = threads;
  sizes.queries = plan.max_queries;
  sizes.prepared_bytes = prepared_bytes_;
  sizes.o_stride = o_stride_;
  // Zeros stand in for tiles that are not stored and for queries that are not finite.
  sizes.hole_bytes =
      std::max({k_tile_bytes_, v_tile_bytes_, call_.shape.k_dim * static_cast<int64_t>(sizeof(float))});
  sizes.partials = plan.partials;
  sizes.groups = static_cast<int64_t>(plan.groups.size());
  HF_RETURN_IF_ERROR(state_.Fit(sizes));
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    state_.left(static_cast<int64_t>(g)).store(plan.groups[g].tasks, std::memory_order_relaxed);
  }
  return OkStatus();
}

void Attention::Run(ThreadPool& pool) {
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

void Attention::RunTask(const AttentionTask& task, const ThreadScratch& scratch) {
  const QueryBlock& block = state_.plan.blocks[static_cast<size_t>(task.block)];
  const int queries = Queries(block);
  PrepareQueries(block, task.kv_head, scratch);
  if (block.group < 0) {
    const Partials run = {scratch.run_heads, scratch.run_o};
    const Partials next = {scratch.chunk_heads, scratch.chunk_o};
    std::fill_n(run.heads, queries, PartialHead{});
    for (int64_t c = 0; c < task.count; ++c) {
      // merge(empty, x) = x: the first chunk's partial is the running one.
      ComputeChunk(block, task.kv_head, block.chunks.At(c), scratch, c == 0 ? run : next);
      if (c > 0) softmax_.merge(run.heads, run.o, next.heads, next.o, queries, o_stride_);
    }
    Finish(block, task.kv_head, run);
    return;
  }
  const int64_t index = block.group + task.kv_head;
  const SplitGroup& group = state_.plan.groups[static_cast<size_t>(index)];
  for (int64_t c = task.first; c < task.first + task.count; ++c) {
    const int64_t partial = group.partial + c * queries;
    ComputeChunk(block, task.kv_head, block.chunks.At(c), scratch,
                 {state_.partial_heads() + partial, state_.partial_o() + partial * o_stride_});
  }
  // Whoever ends last sees the others' partials and folds them.
  if (state_.left(index).fetch_sub(1, std::memory_order_acq_rel) == 1) FoldGroup(block, task.kv_head, group);
}

void Attention::PrepareQueries(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const {
  const int k_dim = call_.shape.k_dim;
  const int64_t first = call_.sequences[static_cast<size_t>(block.sequence)].first_token + block.token;
  for (int i = 0; i < Queries(block); ++i) {
    const int64_t row = (first + i / group_) * call_.q_heads + kv_head * group_ + i % group_;
    const float* query = call_.q + row * k_dim;
    // A codec that quantises the query could lose a NaN on the way, so it is noticed here.
    scratch.poisoned[i] = !softmax_.all_finite(query, k_dim);
    const float* finite = scratch.poisoned[i] ? reinterpret_cast<const float*>(state_.hole()) : query;
    key_.prepare(finite, k_dim, scratch.prepared + i * prepared_bytes_);
  }
}

void Attention::ComputeChunk(const QueryBlock& block, int kv_head, int64_t chunk,
                             const ThreadScratch& scratch, const Partials& to) const {
  const AttentionSequence& sequence = call_.sequences[static_cast<size_t>(block.sequence)];
  const int queries = Queries(block);
  int begin = kChunkRows;
  int end = 0;
  for (int64_t t = 0; t < block.tokens; ++t) {
    const ChunkView view = ViewOfChunk(sequence.visible[static_cast<size_t>(block.token + t)], chunk);
    std::fill_n(scratch.views + t * group_, group_, view);
    if (view.empty()) continue;
    begin = std::min(begin, view.begin0 < view.end0 ? view.begin0 : view.begin1);
    end = std::max({end, view.end0, view.end1});
  }
  if (begin >= end) {
    std::fill_n(to.heads, queries, PartialHead{});
    return;
  }
  ChunkTiles k;
  ChunkTiles v;
  k.begin = v.begin = begin / kTileRows;
  k.end = v.end = (end + kTileRows - 1) / kTileRows;
  LocateTiles(sequence.spans, chunk, kv_head, k_tile_bytes_, v_tile_bytes_, state_.hole(), &k,
              latent_ ? nullptr : &v);
  key_.score(scratch.prepared, queries, call_.shape.k_dim, k, scratch.scores);
  softmax_.softmax(scratch.scores, scratch.views, scratch.poisoned, queries, k.begin, k.end, rule_, to.heads);
  value_.accumulate(scratch.scores, queries, call_.shape.v_dim,
                    latent_ ? call_.shape.k_dim : call_.shape.v_dim, latent_ ? k : v, to.o, o_stride_);
}

void Attention::FoldGroup(const QueryBlock& block, int kv_head, const SplitGroup& group) const {
  const int queries = Queries(block);
  PartialHead* heads = state_.partial_heads() + group.partial;
  float* o = state_.partial_o() + group.partial * o_stride_;
  for (int64_t c = 1; c < block.chunks.count(); ++c) {
    softmax_.merge(heads, o, heads + c * queries, o + c * queries * o_stride_, queries, o_stride_);
  }
  Finish(block, kv_head, {heads, o});
}

void Attention::Finish(const QueryBlock& block, int kv_head, const Partials& done) const {
  const int v_dim = call_.shape.v_dim;
  const int64_t first = call_.sequences[static_cast<size_t>(block.sequence)].first_token + block.token;
  for (int i = 0; i < Queries(block); ++i) {
    const int head = kv_head * group_ + i % group_;
    const float sink_m =
        call_.rule.sink_logits == nullptr ? kEmptyMax : kLog2E * call_.rule.sink_logits[head];
    float* out = call_.out + ((first + i / group_) * call_.q_heads + head) * v_dim;
    softmax_.finish(done.heads[i], done.o + i * o_stride_, sink_m, v_dim, out);
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
