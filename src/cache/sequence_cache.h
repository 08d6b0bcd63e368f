// All layers' caches of one sequence, kept at one length.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "cache/span_cache.h"
#include "holdfast/cache_config.h"

namespace holdfast {

enum class LayerId : int32_t {};

// A layer's cache. Rows by position today; a recurrent state is the second alternative when a model needs it,
// and everything below visits the variant rather than naming SpanCache.
using LayerCache = std::variant<std::unique_ptr<SpanCache>>;

// Not thread-safe: one thread changes a sequence at a time.
class SequenceCache {
 public:
  // Errors: kInvalidArgument (a configuration that ValidateCacheConfig refuses).
  static Result<std::unique_ptr<SequenceCache>> Create(const CacheConfig& config,
                                                       std::shared_ptr<CacheMemory> memory);

  const CacheConfig& config() const { return config_; }
  int64_t length() const { return length_; }
  SpanCache& layer(LayerId id);
  const SpanCache& layer(LayerId id) const;
  int layers() const { return static_cast<int>(layers_.size()); }
  const CacheMemory& memory() const { return *memory_; }

  // Errors as SpanCache::Rewind, and kFailedPrecondition during a step; all layers or none.
  Status Rewind(int64_t n);
  int64_t rewindable() const;
  // Errors: kFailedPrecondition during a step, kDataLoss for a damaged sequence, kResourceExhausted.
  Result<std::unique_ptr<SequenceCache>> Fork() const;
  // Forgets everything, an open step too: open_step() is 0 then. A damaged sequence is usable again.
  void Clear();

  CacheBytes bytes() const;  // equals PlanCache(config(), length()) outside of a step
  int64_t live_bytes() const;

  // For kv/: a step appends to every layer in turn, then advances the length. Between BeginStep and
  // CommitStep the layers differ in length.
  //
  // Makes room in every layer, so that nothing runs out of memory in the middle of a step. On error nothing
  // changes. Errors: kInvalidArgument (tokens < 1), kOutOfRange (max_context), kResourceExhausted,
  // kFailedPrecondition (a step is open), kDataLoss (damaged).
  Status BeginStep(int64_t tokens);
  // The open step's number, no two of a sequence alike; 0: none is open. Who began a step compares it before
  // appending: Clear() ends a step, and the room that it made is gone.
  int64_t open_step() const { return step_tokens_ > 0 ? steps_begun_ : 0; }
  // Error kFailedPrecondition, naming the layer, where one has not appended exactly the step's tokens.
  Status CommitStep();
  // Takes the tokens back from every layer that has them. Where a ring had to give up rows for them and
  // cannot be rewound that far, the sequence is damaged: every call but Clear() says so (kDataLoss). A step
  // of at most rewindable() tokens never gets there, nor does a failure to allocate. Rows and length are then
  // those before the step, but a ring's rewindable() may be less by as many tokens as were appended to it:
  // their slots held the oldest rows that it could have gone back to.
  Status AbortStep();

  // Sharing of blocks between sequences of one CacheMemory. A unit is a cache of rows of its own: each layer's, and its
  // protected rows' where it has any, in ascending layer. REQUIRES storage paged.
  int units() const { return static_cast<int>(units_.size()); }
  const SpanCache& unit(int index) const { return *units_[static_cast<size_t>(index)]; }
  SpanCache& unit(int index) { return *units_[static_cast<size_t>(index)]; }
  // Begins with `length` positions whose rows others own already: id(unit, n) for each block that
  // unit(u).NeededBlocks(length) lists. REQUIRES an empty sequence, no open step. On error it is empty again.
  // Errors: kOutOfRange (max_context), kResourceExhausted.
  Status Adopt(int64_t length, const std::function<BlockId(int unit, int64_t n)>& id);
  // Sum of SpanCache::MostGrowthBytes over the layers.
  int64_t MostGrowthBytes(int64_t length, SpanCache::SharedWith who) const;

 private:
  SequenceCache() = default;
  void ListUnits();
  Status CheckUsable(const char* operation) const;

  CacheConfig config_;
  std::shared_ptr<CacheMemory> memory_;
  std::vector<LayerCache> layers_;
  std::vector<SpanCache*> units_;  // of the layers
  int64_t length_ = 0;
  int64_t step_tokens_ = 0;
  int64_t steps_begun_ = 0;
  bool damaged_ = false;
};

}  // namespace holdfast
