// An engine with a model of its own uses Holdfast's cache and attention: it hands over projected, rotated q,
// k, v and gets the output back. This toy "model" makes its q, k, v from a hash of the position, which is
// enough to show appends, a window, an int8 cache, a rewind, a fork, and two sequences in one batch.
#include <cmath>
#include <cstdio>
#include <vector>

#include "holdfast/kv_cache.h"

namespace {

using namespace holdfast;

constexpr int kLayers = 2, kQueryHeads = 6, kKvHeads = 2, kDim = 64;

// Values in [-1, 1) that depend on their place alone.
std::vector<float> Values(int64_t position, int64_t tokens, int heads, unsigned salt) {
  std::vector<float> values;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int i = 0; i < heads * kDim; ++i) {
      const auto seed = static_cast<uint32_t>((position + t) * 7919 + i) * 2654435761u + salt * 40503u;
      values.push_back(static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1.0f);
    }
  }
  return values;
}

CacheConfig MakeConfig() {
  CacheConfig config;
  LayerConfig full;
  full.shape = {kDim, kDim, false};
  full.kv_heads = kKvHeads;
  LayerConfig window = full;
  window.layout = {LayoutId::kWindow, 128, 4};  // the last 128 positions and the first 4
  window.k_codec = window.v_codec = CodecId::kInt8;
  config.layers = {full, window};
  config.storage = StorageId::kPaged;
  config.max_context = 4096;
  return config;
}

// One forward pass: `tokens` more for each sequence. Returns the last layer's output [tokens of all, heads,
// dim].
Result<std::vector<float>> Forward(KvRuntime& kv, const std::vector<KvSequence*>& sequences, int64_t tokens) {
  std::vector<KvSlice> slices;
  for (KvSequence* s : sequences) slices.push_back({s, tokens});
  auto step = kv.Begin(slices);
  if (!step.ok()) return step.status();
  std::vector<float> q, k, v;
  for (const int64_t position : (*step)->positions()) {
    for (auto [values, heads, salt] :
         {std::tuple(&q, kQueryHeads, 1u), std::tuple(&k, kKvHeads, 2u), std::tuple(&v, kKvHeads, 3u)}) {
      const auto row = Values(position, 1, heads, salt);
      values->insert(values->end(), row.begin(), row.end());
    }
  }
  std::vector<float> out(q.size());
  AttentionRule rule;
  rule.scale = 1.0f / std::sqrt(static_cast<float>(kDim));
  for (int layer = 0; layer < kLayers; ++layer) {
    if (Status s = (*step)->Attend(layer, kQueryHeads, q.data(), k.data(), v.data(), rule, out.data());
        !s.ok())
      return s;
  }
  if (Status s = (*step)->Commit(); !s.ok()) return s;
  return out;
}

int Fail(const Status& status) {
  std::fprintf(stderr, "embed_cache: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main() {
  auto kv = KvRuntime::Create({.threads = 2});
  if (!kv.ok()) return Fail(kv.status());
  auto sequence = (*kv)->NewSequence(MakeConfig());
  if (!sequence.ok()) return Fail(sequence.status());

  auto prompt = Forward(**kv, {sequence->get()}, 300);  // past the window
  if (!prompt.ok()) return Fail(prompt.status());
  auto first = Forward(**kv, {sequence->get()}, 1);
  if (!first.ok()) return Fail(first.status());

  // Take the token back, fork, and do it again in both at once: the same bits.
  if (Status s = (*sequence)->Rewind(1); !s.ok()) return Fail(s);
  auto fork = (*sequence)->Fork();
  if (!fork.ok()) return Fail(fork.status());
  auto both = Forward(**kv, {sequence->get(), fork->get()}, 1);
  if (!both.ok()) return Fail(both.status());
  for (size_t i = 0; i < first->size(); ++i) {
    if ((*first)[i] != (*both)[i] || (*first)[i] != (*both)[first->size() + i]) {
      return Fail(Internal("output " + std::to_string(i) + " differs"));
    }
  }
  const auto plan = PlanCache((*sequence)->config(), (*sequence)->length_tokens());
  if (!plan.ok()) return Fail(plan.status());
  if (!(*plan == (*sequence)->allocated())) return Fail(Internal("plan and allocation differ"));
  std::printf("%lld tokens, %lld bytes planned and allocated; rewound, forked and equal\n",
              static_cast<long long>((*sequence)->length_tokens()),
              static_cast<long long>(plan->total_bytes()));
  return 0;
}
