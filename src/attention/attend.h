// Attention over spans: the one entry for prefill, decode and everything between.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "codec/codec.h"
#include "holdfast/attention_rule.h"
#include "simd/isa.h"
#include "span/span.h"

namespace holdfast {

// One sequence's queries in a flat batch.
struct AttentionSequence {
  int64_t first_token = 0;                // index of its first query in the flat batch
  int64_t tokens = 0;                     // queries, at ascending positions; see AttentionSequence::position
  std::span<const Span> spans;            // ascending positions, no overlap, everything any query sees
  std::span<const VisibleRange> visible;  // [tokens]
  // Rows that are kept in a second pair of codecs (AttentionCall::protected_codecs): of these a query sees
  // protected_visible[i], which ends at its position + 1, and none of them among `visible`, which then ends
  // where the protected ones begin. Both empty where the call has no such codecs.
  std::span<const Span> protected_spans = {};
  std::span<const VisibleRange> protected_visible = {};

  // Of query i.
  int64_t position(int64_t i) const {
    return (protected_visible.empty() ? visible : protected_visible)[static_cast<size_t>(i)].end - 1;
  }
};

// Fewer shared bytes stay in the second-level cache between one sequence and the next: reading them once saves less than
// keeping their partials costs (docs/adr/0010).
inline constexpr int64_t kCascadeBytes = int64_t{1} << 20;

// One layer's attention for a flat batch. All arrays are the caller's and outlive the call.
struct AttentionCall {
  RowShape shape;
  int q_heads =
      0;  // a multiple of kv_heads; query heads [h*G, (h+1)*G) read KV head h, G = q_heads / kv_heads
  int kv_heads = 0;
  CodecSpec k_codec;
  CodecSpec v_codec;  // = k_codec for a latent row
  std::optional<KvSpec> protected_codecs = {};
  AttentionRule rule;
  // What the stored rows lack: the call means rows k + k_center and v + v_center. Null: nothing. Both
  // [kv_heads, k_dim] and [kv_heads, v_dim]. Costs nothing a row.
  const float* k_center = nullptr;
  const float* v_center = nullptr;
  // Leave out the V rows of weights below this: a row for which 2^(logit) is less than sparse_v times the sum over
  // its chunk of 256 positions, or over what the query sees of the first 256 positions (the attention sink is
  // there), whichever is more. So a row's share of the whole is below it too. 0: exact.
  float sparse_v = 0.0f;
  // Visit at most so many pages of 16 rows for each query token and KV head (attention/page_choice.h says which); 0: all.
  // The spans have bounds then, and no range of `visible` has sinks. protected_spans are visited whatever this says.
  int64_t sparse_pages = 0;
  // Score rows that several sequences share in memory once for all of them, where they are at least so many bytes; 0:
  // never. Changes no bit. Where pages are chosen nothing is shared.
  int64_t cascade_bytes = kCascadeBytes;
  std::span<const AttentionSequence> sequences;
  const float* q = nullptr;  // [tokens, q_heads, k_dim]
  float* out = nullptr;      // [tokens, q_heads, v_dim]
};

// Scratch of Attend, kept between calls so that a step allocates nothing. Not thread-safe: one a caller.
class AttentionWorkspace {
 public:
  AttentionWorkspace();
  ~AttentionWorkspace();
  AttentionWorkspace(AttentionWorkspace&&) noexcept;
  AttentionWorkspace& operator=(AttentionWorkspace&&) noexcept;
  int64_t bytes() const;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Computes out. A query that sees no row gets zeros. The bits of a query's output depend on its q, the rows
// it sees and the instruction set alone: not on threads, on other queries, on spans' boundaries. REQUIRES a
// valid call (the cache built it); fails with kResourceExhausted if scratch cannot be had.
Status Attend(const AttentionCall& call, Isa isa, AttentionWorkspace& workspace, ThreadPool& pool);

// The slow, obvious reference: decodes every row to float and computes in double. Same contract but for
// rounding.
void ReferenceAttend(const AttentionCall& call);

}  // namespace holdfast
