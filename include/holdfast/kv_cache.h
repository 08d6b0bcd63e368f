// The cache and its attention for an engine with models of its own.
//
//   auto kv = holdfast::KvRuntime::Create({.threads = 2}).value();
//   auto sequence = kv->NewSequence(config).value();
//   const holdfast::KvSlice slice{sequence.get(), tokens};
//   auto step = kv->Begin({&slice, 1}).value();                        // positions are known from here on
//   for (layer ...) step->Attend(layer, q_heads, q, k, v, rule, out);  // q and k are rotated already
//   step->Commit();
//
// A model hands over projected, rotated q, k, v and gets the output back. It never sees a window's
// arithmetic, a codec, a storage or who else is in the batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "holdfast/attention_rule.h"
#include "holdfast/cache_config.h"
#include "holdfast/status.h"

namespace holdfast {

// Cached rows of one sequence, all layers. Not thread-safe; sequences of one runtime are changed by one
// thread at a time. May outlive its runtime.
class KvSequence {
 public:
  virtual ~KvSequence() = default;

  virtual const CacheConfig& config() const = 0;
  virtual int64_t length_tokens() const = 0;

  // Forgets the last n tokens; afterwards rows and outputs are those of a cache that never saw them.
  // Guaranteed for n up to config().rewind_tokens below the largest length so far: what a window gave up then
  // does not come back. Errors: kInvalidArgument, kFailedPrecondition (names n and the limit); unchanged
  // then.
  virtual Status Rewind(int64_t n) = 0;
  virtual int64_t rewindable_tokens() const = 0;  // largest n that Rewind accepts now
  // Forgets everything. A step that is open over this sequence is over: its Attend and Commit are then
  // kFailedPrecondition, and the other sequences' tokens are taken back.
  virtual void Clear() = 0;

  // A second sequence with the same rows. Paged: shares blocks until one of the two writes to them.
  virtual Result<std::unique_ptr<KvSequence>> Fork() const = 0;

  virtual CacheBytes allocated() const = 0;  // equals PlanCache(config(), length_tokens())
  virtual int64_t live_bytes() const = 0;    // rows some query can still see
};

struct KvSlice {
  KvSequence* sequence = nullptr;
  int64_t tokens = 0;
};

// One forward pass over a flat batch. Destroying it before Commit takes its tokens back; a window's
// rewindable_tokens() may be less afterwards by as many. The runtime and the sequences must outlive it.
class KvStep {
 public:
  virtual ~KvStep() = default;
  virtual int64_t tokens() const = 0;
  virtual std::span<const int64_t> positions() const = 0;  // [tokens] absolute, for RoPE

  // Appends k and v of every token of the batch to `layer` and attends q to what each may see.
  //   q [tokens, q_heads, k_dim]
  //   k [tokens, kv_heads, k_dim]
  //   v [tokens, kv_heads, v_dim], null for a latent row
  //   out [tokens, q_heads, v_dim]
  // Each layer once a step. Errors: kInvalidArgument (q_heads not a multiple of kv_heads; a value the codec
  // cannot carry, named), kResourceExhausted, kFailedPrecondition; the step is then over and its tokens are
  // taken back.
  virtual Status Attend(int layer, int q_heads, const float* q, const float* k, const float* v,
                        const AttentionRule& rule, float* out) = 0;
  virtual Status Commit() = 0;
};

struct KvRuntimeOptions {
  int threads = 0;          // 0: one a core
  int64_t limit_bytes = 0;  // rows of all sequences together; 0: none
};

// Threads, memory and scratch that sequences share. One step at a time.
class KvRuntime {
 public:
  // Error kInvalidArgument: an option, with its limit; HOLDFAST_FORCE_ISA, where this processor lacks what it
  // names.
  static Result<std::unique_ptr<KvRuntime>> Create(const KvRuntimeOptions& options);
  virtual ~KvRuntime() = default;

  // Errors: those of ValidateCacheConfig.
  virtual Result<std::unique_ptr<KvSequence>> NewSequence(const CacheConfig& config) = 0;
  // Checks that every sequence is of this runtime and takes its tokens (max_context, distinct sequences,
  // tokens >= 1) before any work.
  virtual Result<std::unique_ptr<KvStep>> Begin(std::span<const KvSlice> slices) = 0;
  virtual int64_t allocated_bytes() const = 0;  // rows of all sequences, shared blocks once
};

}  // namespace holdfast
