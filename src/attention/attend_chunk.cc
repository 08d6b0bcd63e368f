// What a task does with a chunk: finds its tiles, scores them, sums V by the weights, folds what chunks leave.
#include <algorithm>

#include "attention/attention_run.h"

namespace holdfast {
namespace {

constexpr int kTilesAskedByScore = 4;
constexpr int64_t kAskedLines = 48;  // what the second-level cache can be waiting for

}  // namespace

// <query, centre of K>, where it matters: softmax cancels what all scores share, a soft-cap or a sink does not.
float AttentionRun::ScoreOffset(const float* query, int kv_head) const {
  if (call_.k_center == nullptr || (rule_.cap == 0.0f && call_.rule.sink_logits == nullptr)) return 0.0f;
  const float* center = call_.k_center + int64_t{kv_head} * call_.shape.k_dim;
  double sum = 0.0;
  for (int d = 0; d < call_.shape.k_dim; ++d) {
    sum += static_cast<double>(query[d]) * static_cast<double>(center[d]);
  }
  return static_cast<float>(sum);
}

void AttentionRun::Locate(const QueryBlock& block, int kv_head, ChunkId id, const PageChoice& choice,
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
void AttentionRun::AskForV(const ChunkTiles& v, int64_t v_tile_bytes) const {
  int64_t left = kAskedLines;
  for (int i = v.begin + kTilesAskedByScore; i < v.end && left > 0; ++i) {
    for (int64_t at = 0; at < v_tile_bytes && left > 0; at += 64, --left)
      __builtin_prefetch(v.tile[i] + at, 0, 2);
  }
}

// Leaves the chunk's weights in scratch.scores. REQUIRES rows that some query sees.
void AttentionRun::ScoreChunk(const QueryBlock& block, ChunkId id, const ChunkRows& rows,
                              const ThreadScratch& scratch, PartialHead* heads) const {
  const int queries = Queries(block);
  for (int64_t t = 0; t < block.tokens; ++t) {
    std::fill_n(scratch.views + t * group_, group_, ViewOf(block, t, id, scratch.choice));
  }
  const Part& part = PartOf(id);
  part.key.score(PreparedFor(part, queries, scratch), queries, part.k_format, rows.k, scratch.scores);
  if (!latent_ && !sparse_) AskForV(rows.v, part.v_tile_bytes);
  softmax_.softmax(scratch.scores, scratch.views, scratch.poisoned, scratch.offsets, queries, rows.k.begin,
                   rows.k.end, rule_, heads);
}

// The first chunk as far as each query sees it, protected rows and others.
void AttentionRun::ScoreReference(const QueryBlock& block, int kv_head, const ThreadScratch& scratch) const {
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
void AttentionRun::DropSmall(int queries, ChunkRows* rows, const ThreadScratch& scratch,
                             const PartialHead* heads) const {
  ChunkTiles& tiles = latent_ ? rows->k : rows->v;
  const uint32_t left = softmax_.drop_small(scratch.scores, queries, tiles.begin, tiles.end, heads,
                                            scratch.reference, call_.sparse_v);
  for (int i = tiles.begin; i < tiles.end; ++i) {
    if ((left >> i & 1) == 0) tiles.tile[i] = state_.hole();
  }
}

void AttentionRun::ComputeChunk(const QueryBlock& block, ChunkId id, ChunkRows* rows,
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
void AttentionRun::FoldGroup(const QueryBlock& block, int kv_head) const {
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

void AttentionRun::Finish(const QueryBlock& block, int kv_head, const Partials& done) const {
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

}  // namespace holdfast
