// A flat batch's append and attend: the one place that knows both cache and attention.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attention/attend.h"
#include "base/thread_pool.h"
#include "cache/sequence_cache.h"

namespace holdfast {

// One sequence's tokens in a flat batch; they follow each other, at positions sequence->length()...
struct BatchSlice {
  SequenceCache* sequence = nullptr;
  int64_t tokens = 0;
};

// A layer's k [tokens, kv_heads, k_dim] and v [tokens, kv_heads, v_dim] (null for a latent row) of a whole flat batch.
using KvRowSink = std::function<void(LayerId layer, int64_t tokens, const float* k, const float* v)>;

// One forward pass over the tokens of several sequences. Model code holds this and calls Attend once a layer;
// it never sees a span, a codec, a storage, a window or who else is in the batch.
class KvBatch {
 public:
  // Checks that every sequence takes its tokens and makes room for them before anything is computed. On error
  // all sequences are as before. The sequences, workspace and pool must outlive the batch. Errors:
  // kInvalidArgument (no slices, a sequence twice, tokens < 1, sequences whose layers differ in row shape,
  // heads, codecs or transforms), kOutOfRange (max_context), kResourceExhausted, kFailedPrecondition (a sequence is in
  // another batch), kDataLoss (damaged).
  static Result<KvBatch> Begin(std::span<const BatchSlice> slices, AttentionWorkspace& workspace,
                               ThreadPool& pool);
  // Takes back what was not committed; of a window, rewindable() may be less than before Begin.
  ~KvBatch();
  KvBatch(KvBatch&&) noexcept;
  KvBatch& operator=(KvBatch&&) = delete;

  int64_t tokens() const;                      // of all slices
  std::span<const int64_t> positions() const;  // [tokens] absolute, what RoPE uses

  // Appends k, v and attends q for every token of the batch.
  //   q [tokens, q_heads, k_dim]
  //   k [tokens, kv_heads, k_dim]
  //   v [tokens, kv_heads, v_dim], null for a latent row
  //   out [tokens, q_heads, v_dim]
  // A layer is attended exactly once a batch, layers in any order. A wrong layer, q_heads or null, or a rule
  // whose numbers are none, is an error that changes nothing. A value that a codec cannot carry (kInvalidArgument: names layer, slice, position,
  // head, dim, value, limit) and want of scratch (kResourceExhausted) abort the batch: sequences are as
  // before Begin (see SequenceCache::AbortStep for the exceptions: damage, and that a window may have fewer
  // tokens to rewind). A sequence that was cleared since Begin aborts the batch too (kFailedPrecondition).
  Status Attend(LayerId layer, int q_heads, const float* q, const float* k, const float* v,
                const AttentionRule& rule, float* out);

  // Is called by every Attend with the rows that it was given, once they are stored: for calibration. The sink must
  // outlive the batch; null: none.
  void SetRowSink(const KvRowSink* sink);

  // Whether rows that several sequences share are scored once for all of them where that saves work. Changes no bit; on
  // from the start.
  void SetCascade(bool cascade);

  // Advances every sequence. Error kFailedPrecondition if a layer was not attended, the batch was aborted, or
  // a sequence was cleared since Begin (names the slice; the batch is aborted, no sequence advances).
  Status Commit();

 private:
  struct State;
  explicit KvBatch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace holdfast
