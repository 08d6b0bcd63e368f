// Small caches and made-up rows for the tests of cache/ and what builds on it.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/span_cache.h"
#include "holdfast/cache_config.h"

namespace holdfast::testing {

LayoutConfig Full();
LayoutConfig Window(int64_t window_tokens, int64_t sink_tokens = 0);

// One layer of 2 heads, K of 8 and V of 6 values, codec f32, blocks of 16.
CacheConfig SmallConfig(const LayoutConfig& layout, StorageId storage, int rewind_tokens = 0);

// Rows that differ at every position, head and dim: value(position, head, d), for d in [0, dim).
float RowValue(int64_t position, int head, int d);
// [tokens, heads, dim] from `position` on; `tweak` is added to every value.
std::vector<float> Rows(int64_t position, int64_t tokens, int heads, int dim, float tweak = 0.0f);

// Appends made-up rows in pieces of at most `piece` tokens (and what the cache takes at once).
Status AppendTokens(SpanCache& cache, int64_t tokens, int64_t piece = 1 << 30, float tweak = 0.0f);

// Position of every live row that the spans deliver, ascending, and decoded K of head `head` for each of
// them.
struct LiveRows {
  std::vector<int64_t> positions;
  std::vector<std::vector<float>> k;
  std::vector<std::vector<float>> v;  // empty for a latent row

  friend bool operator==(const LiveRows&, const LiveRows&) = default;
};
LiveRows ReadRows(const SpanCache& cache, int64_t first_query, int head);

}  // namespace holdfast::testing
