// The cache of one layer of one sequence: rows by position, in any layout x codec x storage.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/layout.h"
#include "cache/storage.h"
#include "codec/codec.h"
#include "span/span.h"

namespace holdfast {

class SpanCache {
 public:
  // REQUIRES ValidateCacheConfig(config).ok() and 0 <= layer < config.layers.size().
  static Result<std::unique_ptr<SpanCache>> Create(const CacheConfig& config, int layer,
                                                   std::shared_ptr<CacheMemory> memory);

  const LayerConfig& config() const;
  int64_t length() const;       // positions stored so far; the next append is at this position
  int64_t max_append() const;   // most tokens one Append takes (0 = any), see LayoutTraits

  // Appends `tokens` rows at positions length().. : k [tokens, kv_heads, k_dim], v [tokens, kv_heads, v_dim]
  // (ignored for a latent row). token strides in floats. In place: no row already stored is moved.
  // Equal to appending them one by one. On error the cache is unchanged.
  // Errors: kOutOfRange (max_context, max_append), kInvalidArgument (a value the codec cannot carry: names position,
  // head, dim, value and limit), kResourceExhausted.
  Status Append(int64_t tokens, const float* k, const float* v);

  // Forgets the last n tokens: afterwards the cache equals one that never saw them. Guaranteed for n up to
  // rewind_tokens, and further as long as no row that the shorter cache needs has been given up.
  // Errors: kInvalidArgument (n < 0 or n > length), kFailedPrecondition (names n and the limit); unchanged then.
  Status Rewind(int64_t n);
  int64_t rewindable() const;   // largest n that Rewind accepts now

  Result<std::unique_ptr<SpanCache>> Fork() const;
  CacheBytes bytes() const;     // allocated; equals PlanLayer(config, layer, length())
  int64_t live_bytes() const;   // encoded bytes of the rows that are live now
  LiveRange live() const;

  // Appends to `spans` the live rows in ascending position. Valid until the next change of this cache.
  void AppendSpans(std::vector<Span>& spans) const;
  // What the query at `position` sees.
  VisibleRange visible(int64_t position) const;

 private:
  struct State;
  explicit SpanCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
 public:
  ~SpanCache();
};

}  // namespace holdfast
