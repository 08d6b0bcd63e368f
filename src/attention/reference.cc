// The slow, obvious reference: one query at a time, every row decoded, everything in double, one softmax over
// all rows. It shares nothing with the kernels, the plan or the algebra of partials.
#include <cmath>
#include <limits>
#include <vector>

#include "attention/attend.h"
#include "span/decode_row.h"

namespace holdfast {
namespace {

struct Row {
  double score;
  std::vector<float> v;
};

double ScoreOf(const AttentionRule& rule, const float* q, const std::vector<float>& k) {
  double dot = 0.0;
  for (size_t d = 0; d < k.size(); ++d) dot += static_cast<double>(q[d]) * k[d];
  const double scaled = dot * rule.scale;
  return rule.softcap > 0.0f ? rule.softcap * std::tanh(scaled / rule.softcap) : scaled;
}

// What the rows of a KV head lack.
void Add(const float* centers, int kv_head, std::vector<float>& row) {
  if (centers == nullptr) return;
  const float* center = centers + kv_head * static_cast<int64_t>(row.size());
  for (size_t d = 0; d < row.size(); ++d) row[d] += center[d];
}

// Adds the visible rows of one KV head, scored.
void AddVisibleRows(const AttentionCall& call, const KvSpec& codecs, std::span<const Span> spans,
                    const VisibleRange& visible, int kv_head, const float* q, std::vector<Row>* rows) {
  const RowShape& shape = call.shape;
  for (const Span& span : spans) {
    for (int64_t p = span.begin; p < span.end(); ++p) {
      if (!visible.Sees(p)) continue;
      std::vector<float> k(static_cast<size_t>(shape.k_dim));
      DecodeKey(span, codecs.k, shape.k_dim, p, kv_head, k.data());
      const std::vector<float> stored = k;
      Add(call.k_center, kv_head, k);
      Row row;
      row.score = ScoreOf(call.rule, q, k);
      if (shape.v_is_prefix_of_k) {
        row.v.assign(stored.begin(), stored.begin() + shape.v_dim);
      } else {
        row.v.resize(static_cast<size_t>(shape.v_dim));
        DecodeValue(span, codecs.v, shape.v_dim, p, kv_head, row.v.data());
      }
      Add(call.v_center, kv_head, row.v);
      rows->push_back(std::move(row));
    }
  }
}

void AttendOne(const AttentionCall& call, const std::vector<Row>& rows, int head, float* out) {
  const size_t v_dim = static_cast<size_t>(call.shape.v_dim);
  std::vector<double> sum(v_dim, 0.0);
  const bool sink = call.rule.sink_logits != nullptr;
  double largest =
      sink ? static_cast<double>(call.rule.sink_logits[head]) : -std::numeric_limits<double>::infinity();
  for (const Row& row : rows) largest = std::fmax(largest, row.score);
  double total = sink ? std::exp(call.rule.sink_logits[head] - largest) : 0.0;
  for (const Row& row : rows) {
    const double weight = std::exp(row.score - largest);
    total += weight;
    for (size_t d = 0; d < v_dim; ++d) sum[d] += weight * row.v[d];
  }
  for (size_t d = 0; d < v_dim; ++d) out[d] = rows.empty() ? 0.0f : static_cast<float>(sum[d] / total);
}

}  // namespace

void ReferenceAttend(const AttentionCall& call) {
  const int group = call.q_heads / call.kv_heads;
  for (const AttentionSequence& sequence : call.sequences) {
    for (int64_t t = 0; t < sequence.tokens; ++t) {
      for (int head = 0; head < call.q_heads; ++head) {
        const int64_t row = (sequence.first_token + t) * call.q_heads + head;
        const float* q = call.q + row * call.shape.k_dim;
        const auto token = static_cast<size_t>(t);
        std::vector<Row> rows;
        AddVisibleRows(call, {call.k_codec, call.v_codec}, sequence.spans, sequence.visible[token],
                       head / group, q, &rows);
        if (call.protected_codecs.has_value()) {
          AddVisibleRows(call, *call.protected_codecs, sequence.protected_spans,
                         sequence.protected_visible[token], head / group, q, &rows);
        }
        AttendOne(call, rows, head, call.out + row * call.shape.v_dim);
      }
    }
  }
}

}  // namespace holdfast
