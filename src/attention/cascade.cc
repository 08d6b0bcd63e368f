#include "attention/cascade.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "attention/partial.h"
#include "attention/plan.h"
#include "base/checked.h"
#include "codec/codec.h"

namespace holdfast {
namespace {

constexpr size_t kMostMembers = 128;  // of a group, so that looking for the best ones stays quick

auto PlaceOf(const Span& span) {
  return std::tuple(span.begin, span.k, span.v, span.k_head_stride_bytes, span.v_head_stride_bytes);
}

// Positions from 0 on whose rows are the same memory for both.
int64_t SharedRows(const AttentionSequence& a, const AttentionSequence& b) {
  int64_t rows = 0;
  const size_t most = std::min(a.spans.size(), b.spans.size());
  for (size_t i = 0; i < most; ++i) {
    if (a.spans[i].begin != rows || PlaceOf(a.spans[i]) != PlaceOf(b.spans[i])) break;
    rows += std::min(a.spans[i].rows, b.spans[i].rows);
    if (a.spans[i].rows != b.spans[i].rows) break;
  }
  return rows;
}

// Neighbours in this order share most.
bool Before(const AttentionSequence& a, const AttentionSequence& b) {
  return std::lexicographical_compare(a.spans.begin(), a.spans.end(), b.spans.begin(), b.spans.end(),
                                      [](const Span& x, const Span& y) { return PlaceOf(x) < PlaceOf(y); });
}

bool MayShare(const AttentionSequence& s, int64_t least_chunks) {
  return s.tokens == 1 && s.visible[0].begin == 0 && !s.spans.empty() &&
         s.visible[0].end > least_chunks * kChunkRows;
}

int64_t SharedChunks(const AttentionSequence& a, const AttentionSequence& b) {
  // A query has a chunk of its own at least: what its partials are folded with.
  const int64_t seen = std::min(a.visible[0].end, b.visible[0].end) - 1;
  return std::min(SharedRows(a, b), seen) / kChunkRows;
}

int64_t LeastChunks(const AttentionCall& call) {
  const RowFormat k_format(call.shape.k_dim, call.k_codec.group),
      v_format(call.shape.v_dim, call.v_codec.group);
  const int64_t k = GetCodec(call.k_codec).k_tile_bytes(k_format);
  const int64_t v = call.shape.v_is_prefix_of_k ? 0 : GetCodec(call.v_codec).v_tile_bytes(v_format);
  return CeilDiv(call.cascade_bytes, (k + v) * kChunkTiles * call.kv_heads);
}

int64_t PartialsOf(const AttentionCall& call, const SharedPrefix& prefix) {
  int64_t chunks = 0;
  for (const int32_t s : prefix.sequences)
    chunks += CeilDiv(call.sequences[static_cast<size_t>(s)].visible[0].end, kChunkRows);
  return chunks * call.q_heads;
}

// Cuts the order into groups such that the chunks that need not be read again are the most: a group of n that shares c
// saves (n - 1) * c. shared[i]: what i shares with its neighbour i - 1. least: the least c.
std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> BestGroups(const std::vector<int64_t>& shared,
                                                                  int64_t least) {
  const size_t n = shared.size();
  std::vector<int64_t> saved(n + 1);  // of the first i
  std::vector<size_t> from(n + 1);    // where the last group of the first i begins
  for (size_t end = 1; end <= n; ++end) {
    saved[end] = saved[end - 1];
    from[end] = end - 1;
    int64_t chunks = INT64_MAX;
    for (size_t begin = end - 1; begin > 0 && end - begin < kMostMembers;) {
      chunks = std::min(chunks, shared[begin]);
      if (chunks < least) break;
      --begin;
      const int64_t all = saved[begin] + static_cast<int64_t>(end - begin - 1) * chunks;
      if (all <= saved[end]) continue;
      saved[end] = all;
      from[end] = begin;
    }
  }
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> groups;
  for (size_t end = n; end > 0; end = from[end]) {
    if (end - from[end] < 2) continue;
    groups.emplace_back(static_cast<std::ptrdiff_t>(from[end]), static_cast<std::ptrdiff_t>(end));
  }
  return groups;
}

}  // namespace

std::vector<SharedPrefix> FindSharedPrefixes(const AttentionCall& call) {
  std::vector<SharedPrefix> found;
  if (call.cascade_bytes <= 0 || call.sparse_pages > 0 || call.protected_codecs.has_value() ||
      call.sparse_v > 0.0f)
    return found;
  // Two sequences' queries must fit beside each other.
  if (2 * (call.q_heads / call.kv_heads) > kBlockQueries) return found;
  const int64_t least = LeastChunks(call);
  std::vector<int32_t> order;
  for (size_t s = 0; s < call.sequences.size(); ++s) {
    if (MayShare(call.sequences[s], least)) order.push_back(static_cast<int32_t>(s));
  }
  if (order.size() < 2) return found;
  const auto sequence = [&](size_t i) -> const AttentionSequence& {
    return call.sequences[static_cast<size_t>(order[i])];
  };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return Before(call.sequences[static_cast<size_t>(a)], call.sequences[static_cast<size_t>(b)]);
  });
  std::vector<int64_t> shared(order.size());  // chunks that i shares with i - 1
  for (size_t i = 1; i < order.size(); ++i) shared[i] = SharedChunks(sequence(i - 1), sequence(i));
  int64_t partials = 0;
  for (const auto& [begin, end] : BestGroups(shared, least)) {
    SharedPrefix prefix{*std::min_element(shared.begin() + begin + 1, shared.begin() + end),
                        {order.begin() + begin, order.begin() + end}};
    partials += PartialsOf(call, prefix);
    if (partials > kMaxCascadePartials) break;
    found.push_back(std::move(prefix));
  }
  return found;
}

}  // namespace holdfast
