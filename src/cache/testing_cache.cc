#include "cache/testing_cache.h"

#include <algorithm>

#include "base/status_macros.h"
#include "span/decode_row.h"

namespace holdfast::testing {

LayoutConfig Full() {
  return {.id = LayoutId::kFull};
}

LayoutConfig Window(int64_t window_tokens, int64_t sink_tokens) {
  return {.id = LayoutId::kWindow, .window_tokens = window_tokens, .sink_tokens = sink_tokens};
}

CacheConfig SmallConfig(const LayoutConfig& layout, StorageId storage, int rewind_tokens) {
  const LayerConfig layer = {.layout = layout,
                             .k_codec = CodecId::kF32,
                             .v_codec = CodecId::kF32,
                             .shape = {.k_dim = 8, .v_dim = 6, .v_is_prefix_of_k = false},
                             .kv_heads = 2};
  return {.layers = {layer},
          .storage = storage,
          .block_tokens = 16,
          .max_context = 4096,
          .rewind_tokens = rewind_tokens};
}

float RowValue(int64_t position, int head, int d) {
  return static_cast<float>(position * 64 + head * 16 + d) / 64.0f;
}

std::vector<float> Rows(int64_t position, int64_t tokens, int heads, int dim, float tweak) {
  std::vector<float> rows;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int head = 0; head < heads; ++head) {
      for (int d = 0; d < dim; ++d) rows.push_back(RowValue(position + t, head, d) + tweak);
    }
  }
  return rows;
}

Status AppendTokens(SpanCache& cache, int64_t tokens, int64_t piece, float tweak) {
  const LayerConfig& config = cache.config();
  while (tokens > 0) {
    int64_t n = std::min(tokens, piece);
    if (cache.max_append() != 0) n = std::min(n, cache.max_append());
    const auto k = Rows(cache.length(), n, config.kv_heads, config.shape.k_dim, tweak);
    const auto v = Rows(cache.length(), n, config.kv_heads, config.shape.v_dim, tweak - 100.0f);
    HF_RETURN_IF_ERROR(cache.Append(n, k.data(), v.data()));
    tokens -= n;
  }
  return OkStatus();
}

LiveRows ReadRows(const SpanCache& cache, int64_t first_query, int head) {
  const LayerConfig& config = cache.config();
  const RowShape& shape = config.shape;
  std::vector<Span> spans;
  cache.AppendSpans(first_query, spans);
  LiveRows rows;
  for (const Span& span : spans) {
    for (int64_t p = span.begin; p < span.end(); ++p) {
      rows.positions.push_back(p);
      DecodeKey(span, config.k_codec, shape.k_dim, p, head, rows.k.emplace_back(shape.k_dim).data());
      if (span.v == nullptr) continue;
      DecodeValue(span, config.v_codec, shape.v_dim, p, head, rows.v.emplace_back(shape.v_dim).data());
    }
  }
  return rows;
}

}  // namespace holdfast::testing
