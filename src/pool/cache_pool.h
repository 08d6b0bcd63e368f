// The caches of many sequences under one budget: admission, growth, shared prefixes, eviction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/sequence_cache.h"
#include "holdfast/pool_figures.h"
#include "paging/prefix_index.h"

namespace holdfast {

// Ids rise from 1 and are never used again.
enum class SequenceId : int64_t { kNone = 0 };

// Names an open sequence. One that was closed since is refused wherever it is used, however often its slot has been
// taken again: the id is the slot's generation.
struct SequenceHandle {
  int32_t slot = -1;
  SequenceId id = SequenceId::kNone;
  friend bool operator==(const SequenceHandle&, const SequenceHandle&) = default;
};

struct PoolOptions {
  CacheConfig cache;
  // Ceiling on memory_usage_bytes(). 0: none.
  int64_t budget_bytes = 0;
  // Ceiling on the tokens that running sequences hold or have reserved, each rounded up to whole blocks. 0: none.
  int64_t budget_tokens = 0;
  int max_sequences = 1;
  int64_t scratch_bytes = 0;    // of the model and of attention: part of the budget from the start
  bool share_prefixes = false;  // needs storage paged
  int64_t prefix_ttl = 0;       // in the unit of `now`; 0: none
  PrefixIndex::KeyFunction key = ChainBlockKey;
};

// Everything that rows depend on but the tokens: the root of a tree of prefixes (docs/formats/block-identity.md).
struct PrefixIdentity {
  Sha256 model = {};       // digest of the weights, tokenizer and mathematics
  Sha256 adapter = {};     // zeros: none
  std::string name_space;  // a tenant's

  friend bool operator==(const PrefixIdentity&, const PrefixIdentity&) = default;
};
// cache: CacheDigest of the configuration, every parameter that rows depend on.
BlockKey RootKey(const PrefixIdentity& identity, const Sha256& cache);
Sha256 CacheDigest(const CacheConfig& config);

struct OpenRequest {
  std::span<const int32_t> tokens;  // what the sequence begins with; at least one
  int64_t reserve_tokens = 0;       // the length that room is kept for; at least tokens.size()
  PrefixIdentity identity = {};
  bool reuses = true;  // false: every token is to be evaluated, whatever is stored
};

struct Opened {
  SequenceHandle handle;
  Receipt receipt;  // the cache holds receipt.reused_tokens already: at most tokens.size() - 1
};

// Not thread-safe.
//
// The rule of admission: rows that running sequences own, plus what each may still allocate within its reservation,
// never pass the budget. Idle prefixes live in what that leaves and give way whenever it is needed.
class CachePool {
 public:
  // Errors: those of ValidateCacheConfig; kInvalidArgument (an option; sharing without blocks), kResourceExhausted (a
  // budget that does not hold the scratch and one block a layer).
  static Result<std::unique_ptr<CachePool>> Create(const PoolOptions& options);
  ~CachePool();

  // Whether a sequence of this length could run if it were alone. Error kOutOfRange, with the numbers.
  Status CheckEverFits(int64_t tokens) const;
  // A sequence with room reserved for its whole length, beginning with the longest stored prefix. Errors, nothing
  // changed then: those of CheckEverFits; kResourceExhausted (no room now: try again when a sequence has closed).
  Result<Opened> Open(const OpenRequest& request, int64_t now);
  // The tokens that Open would reuse now.
  int64_t Reusable(const OpenRequest& request) const;
  // A second sequence with the same rows and a reservation of its own. Errors: kNotFound (stale), kResourceExhausted.
  Result<SequenceHandle> Fork(SequenceHandle handle, int64_t reserve_tokens, int64_t now);

  // Error kNotFound: a stale handle. Valid until Close.
  Result<SequenceCache*> cache(SequenceHandle handle);
  // Reserves up to `tokens` in all. Errors: kNotFound, kOutOfRange, kResourceExhausted: others' reservations leave no
  // room, idle prefixes counted as room.
  Status Grow(SequenceHandle handle, int64_t tokens);
  // Before a step in which the sequences append so many tokens each: makes the memory for it free by dropping idle
  // prefixes, so that no allocation of the step fails. REQUIRES lengths within the reservations.
  struct StepSlice {
    SequenceHandle handle;
    int64_t tokens = 0;
  };
  Status BeginStep(std::span<const StepSlice> slices, int64_t now);
  // After it. What was closed meanwhile is released now.
  void EndStep();

  // Lets others reuse the sequence's rows: `tokens` are what it holds, at least cache length of them. with_tail: the
  // last block too although it is not full. No effect where prefixes are not shared. Error kNotFound.
  Status Publish(SequenceHandle handle, std::span<const int32_t> tokens, bool with_tail, int64_t now);
  // Ends the sequence and gives up its reservation; during a step, after it. Error kNotFound.
  Status Close(SequenceHandle handle);

  // The stored prefix of `tokens`, whole blocks of it, stays until it is unpinned as often. Returns its tokens. Errors:
  // kNotFound (nothing is stored, or was not pinned), kResourceExhausted (no room beside what is reserved).
  Result<int64_t> Pin(const PrefixIdentity& identity, std::span<const int32_t> tokens);
  Status Unpin(const PrefixIdentity& identity, std::span<const int32_t> tokens);
  void DropExpired(int64_t now);
  void DropIdle();

  // Rows, metadata and idle prefixes as the allocator took them, and scratch.
  int64_t memory_usage_bytes() const;
  int64_t budget_bytes() const;
  BlockCounts blocks() const;
  int64_t blocks_of(SequenceHandle handle) const;  // 0 for a stale one
  int64_t open_sequences() const;
  int64_t evictions() const;
  const CacheConfig& config() const;
  bool shares_prefixes() const;  // as PoolOptions says
  // Recomputes every count from the caches and the index and compares. For tests and simulations.
  Status CheckInvariants() const;

 private:
  struct State;
  explicit CachePool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace holdfast
