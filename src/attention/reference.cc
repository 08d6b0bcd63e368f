// The slow, obvious reference: one query at a time, every row decoded, everything in double, one softmax over
// all rows. It shares nothing with the kernels, the plan or the algebra of partials.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "attention/attend.h"
#include "span/decode_row.h"
#include "span/page_bounds.h"

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

// Adds the visible rows of one KV head, scored; where `pages` are given, theirs only.
void AddVisibleRows(const AttentionCall& call, const KvSpec& codecs, std::span<const Span> spans,
                    const VisibleRange& visible, const std::set<int64_t>& pages, int kv_head, const float* q,
                    std::vector<Row>* rows) {
  const RowShape& shape = call.shape;
  for (const Span& span : spans) {
    for (int64_t p = span.begin; p < span.end(); ++p) {
      if (!visible.Sees(p) || (!pages.empty() && !pages.contains(p / kTileRows))) continue;
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

// The most that a row within the bounds scores.
double BoundOf(const std::vector<float>& lowest, const std::vector<float>& highest, const float* q,
               double scale) {
  double sum = 0.0;
  for (size_t d = 0; d < lowest.size(); ++d) {
    const double x = static_cast<double>(q[d]) * (scale < 0.0 ? -1.0 : 1.0);
    sum += std::fmax(x * lowest[d], x * highest[d]);
  }
  return sum;
}

// The pages that a token's heads of one KV head visit (page_choice.h); none: all. queries: of its first head.
std::set<int64_t> ChosenPages(const AttentionCall& call, std::span<const Span> spans,
                              const VisibleRange& visible, int kv_head, const float* queries) {
  std::set<int64_t> seen, whole, chosen;
  for (int64_t p = visible.begin; p < visible.end; ++p) seen.insert(p / kTileRows);
  if (call.sparse_pages == 0 || static_cast<int64_t>(seen.size()) <= call.sparse_pages) return {};
  std::map<int64_t, std::vector<double>> bounds;  // a head each
  const int group = call.q_heads / call.kv_heads;
  const auto dim = static_cast<size_t>(call.shape.k_dim);
  for (const Span& span : spans) {
    for (int64_t p = span.begin; p < span.end(); ++p) {
      const int64_t page = p / kTileRows;
      if (page * kTileRows < visible.begin || (page + 1) * kTileRows > visible.end) continue;
      std::vector<float> lowest(dim), highest(dim);
      ReadPageBounds(span.bounds + kv_head * span.bounds_head_stride_bytes +
                         (page - span.begin / kTileRows) * PageBoundsBytes(call.shape.k_dim),
                     call.shape.k_dim, lowest.data(), highest.data());
      bounds[page].resize(static_cast<size_t>(group));
      for (int h = 0; h < group; ++h) {
        bounds[page][static_cast<size_t>(h)] =
            BoundOf(lowest, highest, queries + h * call.shape.k_dim, static_cast<double>(call.rule.scale));
      }
    }
  }
  std::vector<double> best(static_cast<size_t>(group), -INFINITY);
  for (const auto& [page, of_head] : bounds) {
    for (size_t h = 0; h < best.size(); ++h) best[h] = std::fmax(best[h], of_head[h]);
  }
  chosen.insert(*seen.begin());
  auto last = seen.end();
  for (int i = 0; i < 4; ++i) chosen.insert(*--last);
  std::vector<std::pair<double, int64_t>> others;  // how far behind, and where
  for (const auto& [page, of_head] : bounds) {
    double behind = INFINITY;
    for (size_t h = 0; h < best.size(); ++h) behind = std::fmin(behind, best[h] - of_head[h]);
    if (!chosen.contains(page)) others.emplace_back(behind, page);
  }
  std::sort(others.begin(), others.end());
  for (const auto& [behind, page] : others) {
    if (static_cast<int64_t>(chosen.size()) < call.sparse_pages) chosen.insert(page);
  }
  return chosen;
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
        const int kv_head = head / group;
        const float* queries = q - head % group * call.shape.k_dim;
        const std::set<int64_t> pages =
            ChosenPages(call, sequence.spans, sequence.visible[token], kv_head, queries);
        AddVisibleRows(call, {call.k_codec, call.v_codec}, sequence.spans, sequence.visible[token], pages,
                       kv_head, q, &rows);
        if (call.protected_codecs.has_value()) {
          AddVisibleRows(call, *call.protected_codecs, sequence.protected_spans,
                         sequence.protected_visible[token], {}, kv_head, q, &rows);
        }
        AttendOne(call, rows, head, call.out + row * call.shape.v_dim);
      }
    }
  }
}

}  // namespace holdfast
