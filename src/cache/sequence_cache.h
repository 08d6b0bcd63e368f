// All layers' caches of one sequence, kept at one length.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "cache/span_cache.h"
#include "holdfast/cache_config.h"

namespace holdfast {

enum class LayerId : int32_t {};

// A layer's cache. Rows by position today; a recurrent state is the second alternative when a model needs it, and
// everything below visits the variant rather than naming SpanCache.
using LayerCache = std::variant<std::unique_ptr<SpanCache>>;

// Not thread-safe: one thread changes a sequence at a time.
class SequenceCache {
 public:
  static Result<std::unique_ptr<SequenceCache>> Create(const CacheConfig& config,
                                                       std::shared_ptr<CacheMemory> memory);

  const CacheConfig& config() const { return config_; }
  int64_t length() const { return length_; }
  SpanCache& layer(LayerId id);
  int layers() const { return static_cast<int>(layers_.size()); }

  // Errors as SpanCache::Rewind; all layers or none.
  Status Rewind(int64_t n);
  int64_t rewindable() const;
  Result<std::unique_ptr<SequenceCache>> Fork() const;
  // Forgets everything.
  void Clear();

  CacheBytes bytes() const;
  int64_t live_bytes() const;

  // For kv/: a step appends to every layer in turn, then advances the length. Between BeginStep and CommitStep the
  // layers differ in length; AbortStep takes the tokens back from every layer that has them. If a ring had to
  // give up rows for them, the sequence is unusable until Clear(), and says so (kDataLoss) when asked.
  Status BeginStep(int64_t tokens);   // checks max_context and usability; names the values
  Status CommitStep();
  Status AbortStep();

 private:
  SequenceCache() = default;
  CacheConfig config_;
  std::shared_ptr<CacheMemory> memory_;
  std::vector<LayerCache> layers_;
  int64_t length_ = 0;
  int64_t step_tokens_ = 0;
  bool damaged_ = false;
};

}  // namespace holdfast
