// One call of Attend while it runs (attend.cc: its tasks; attend_chunk.cc: a chunk of one of them).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "attention/attend.h"
#include "attention/kernels/softmax_kernels.h"
#include "attention/locate.h"
#include "attention/page_choice.h"
#include "attention/plan.h"
#include "attention/workspace.h"

namespace holdfast {

// One call, with what every task looks up.
class AttentionRun {
 public:
  AttentionRun(const AttentionCall& call, Isa isa, AttentionWorkspace::State& state);

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
    Part(const AttentionCall& call, const KvSpec& codecs, int64_t prepared_before, Isa isa);
    const KeyKernels& key;
    const ValueKernels& value;
    RowFormat k_format;
    RowFormat v_format;      // of the tiles that V is read from
    int64_t prepared_bytes;  // of a query
    int64_t prepared_at;     // where those of a query begin, for each of the queries beside it
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
  static std::byte* PreparedFor(const Part& part, int queries, const ThreadScratch& scratch) {
    return scratch.prepared + queries * part.prepared_at;
  }

  void ChooseSharedPages(ThreadPool& pool);
  PageChoice ChoosePages(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const;
  PageChoice ChoiceOf(const QueryBlock& block, const int64_t* pages) const;
  void RunTask(const AttentionTask& task, ThreadScratch all);
  void PrepareTask(const QueryBlock& block, const AttentionTask& task, const ThreadScratch& all);
  void LeaveTask(const QueryBlock& block, const AttentionTask& task, const ThreadScratch& all);
  ThreadScratch ScratchOfHead(const QueryBlock& block, const AttentionTask& task, int kv_head,
                              ThreadScratch scratch) const;
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
  void LeaveBlock(const QueryBlock& block, int kv_head);
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
  // Of a query, for both parts.
  int64_t PreparedBytes() const {
    return main_.prepared_bytes + (protected_ ? protected_->prepared_bytes : 0);
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

}  // namespace holdfast
