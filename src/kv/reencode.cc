#include "kv/reencode.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "kv/layer_transform.h"
#include "span/decode_row.h"

namespace holdfast {
namespace {

// Rows of one layer of `from`, decoded: [tokens, kv_heads, dim].
struct DecodedRows {
  std::vector<float> k;
  std::vector<float> v;
};

// The rows at positions [begin, begin + tokens) that lie in one of the spans; the others are zeros.
void Decode(const LayerConfig& layer, const std::vector<Span>& spans, int64_t begin, int64_t tokens,
            DecodedRows* rows) {
  const RowShape& shape = layer.shape;
  const int64_t heads = layer.kv_heads;
  rows->k.assign(static_cast<size_t>(tokens * heads * shape.k_dim), 0.0f);
  rows->v.assign(shape.v_is_prefix_of_k ? 0 : static_cast<size_t>(tokens * heads * shape.v_dim), 0.0f);
  for (const Span& span : spans) {
    for (int64_t p = std::max(span.begin, begin); p < std::min(span.end(), begin + tokens); ++p) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t row = (p - begin) * heads + head;
        DecodeKey(span, layer.k_codec, shape.k_dim, p, head, rows->k.data() + row * shape.k_dim);
        if (shape.v_is_prefix_of_k) continue;
        DecodeValue(span, layer.v_codec, shape.v_dim, p, head, rows->v.data() + row * shape.v_dim);
      }
    }
  }
}

Status ReencodeLayer(const SpanCache& from, SpanCache& to, ThreadPool& pool) {
  constexpr int64_t kMostTokens = 256;
  std::vector<Span> spans;
  from.AppendLiveSpans(spans);
  DecodedRows rows;
  LayerTransform transform;
  while (to.length() < from.length()) {
    int64_t tokens = std::min(kMostTokens, from.length() - to.length());
    if (to.max_append() > 0) tokens = std::min(tokens, to.max_append());
    Decode(from.config(), spans, to.length(), tokens, &rows);
    const float* v = rows.v.empty() ? nullptr : rows.v.data();
    const LayerTransform::Rows stored =
        transform.Apply(to.config(), tokens, 0, nullptr, rows.k.data(), v, ActiveIsa(), pool);
    HF_RETURN_IF_ERROR(to.CheckRows(tokens, stored.k, stored.v));
    to.EncodeRows(to.length(), tokens, 0, to.config().kv_heads, stored.k, stored.v);
    to.Advance(tokens);
  }
  return OkStatus();
}

}  // namespace

Status Reencode(const SequenceCache& from, SequenceCache& to, ThreadPool& pool) {
  if (from.length() == 0) return OkStatus();
  HF_RETURN_IF_ERROR(to.BeginStep(from.length()));
  Status status;
  try {
    for (int i = 0; i < from.layers() && status.ok(); ++i) {
      status = ReencodeLayer(from.layer(LayerId{i}), to.layer(LayerId{i}), pool);
    }
  } catch (const std::bad_alloc&) {
    status = ResourceExhausted("re-encode: no memory for the rows of a layer");
  }
  if (status.ok()) return to.CommitStep();
  to.Clear();
  return Status(status.code(), "re-encode: " + status.message());
}

}  // namespace holdfast
