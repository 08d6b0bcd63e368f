#include "model_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"

namespace holdfast {
namespace {

// What an unrelated sequence says: any ids will do, as long as they differ from the ones under test.
std::vector<int32_t> Chatter(int64_t n, int64_t seed, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((seed * 7919 + i * 104729) % vocab));
  return tokens;
}

// One unrelated sequence of the batch: how many tokens it begins with, and how many more it takes a step.
struct Other {
  int64_t prefix, step;
  std::unique_ptr<SequenceCache> cache;
};

}  // namespace

std::string RunName(const RunOptions& o) {
  return std::string(CodecName(o.codec)) + "_" + std::string(StorageName(o.storage)) + "_" +
         (o.chunk_tokens == 0 ? "one_shot" : "chunks_of_" + std::to_string(o.chunk_tokens)) +
         (o.with_others ? "_with_others" : "") + (o.protection.none() ? "" : "_protected") +
         (o.sparse_v > 0.0f ? "_sparse" : "") + (o.sparse_pages > 0 ? "_pages" : "");
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::Load(const std::string& path, int threads, bool exact) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner());
  HF_ASSIGN_OR_RETURN(runner->pool_, ThreadPool::Create(threads));
  LoadOptions options;
  options.exact = exact;
  HF_ASSIGN_OR_RETURN(runner->loaded_, LoadModel(path, options, *runner->pool_));
  return runner;
}

Result<std::unique_ptr<SequenceCache>> ModelRunner::NewSequence(const RunOptions& options,
                                                                int64_t max_context) {
  CacheConfig config;
  config.layers = CacheLayers(model().config());
  for (LayerConfig& layer : config.layers) {
    layer.k_codec = layer.v_codec = options.codec;
    layer.protection = options.protection;
    layer.sparse_v = options.sparse_v;
    if (layer.layout.id == LayoutId::kFull) layer.sparse_pages = options.sparse_pages;
  }
  config.storage = options.storage;
  config.max_context = max_context;
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  return SequenceCache::Create(config, std::make_shared<CacheMemory>());
}

Result<std::vector<float>> ModelRunner::LastLogits(std::span<const int32_t> tokens, int64_t last,
                                                   const RunOptions& options) {
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t vocab = model().config().vocab_size;
  HF_ASSIGN_OR_RETURN(auto cache, NewSequence(options, total));
  std::vector<Other> others;
  if (options.with_others) {
    for (const auto& [prefix, step] : {std::pair<int64_t, int64_t>{3, 1}, {40, 2}, {17, 5}}) {
      HF_ASSIGN_OR_RETURN(auto other, NewSequence(options, prefix + step * (total + 1)));
      const auto text = Chatter(prefix, prefix, vocab);
      const BatchSlice slice{other.get(), prefix};
      HF_ASSIGN_OR_RETURN(KvBatch kv, KvBatch::Begin({&slice, 1}, workspace_, *pool_));
      HF_RETURN_IF_ERROR(model().Forward(text, kv, {}, nullptr));
      HF_RETURN_IF_ERROR(kv.Commit());
      others.push_back({prefix, step, std::move(other)});
    }
  }
  std::vector<float> logits(static_cast<size_t>(last * vocab));
  int64_t written = 0;
  const int64_t chunk = options.chunk_tokens == 0 ? total : options.chunk_tokens;
  for (int64_t begin = 0; begin < total; begin += chunk) {
    const int64_t n = std::min(chunk, total - begin);
    std::vector<int32_t> batch;
    std::vector<BatchSlice> slices;
    const auto add = [&](SequenceCache* sequence, std::span<const int32_t> ids) {
      batch.insert(batch.end(), ids.begin(), ids.end());
      slices.push_back({sequence, static_cast<int64_t>(ids.size())});
    };
    if (!others.empty()) add(others[0].cache.get(), Chatter(others[0].step, begin, vocab));
    std::vector<int64_t> rows;
    for (int64_t i = std::max<int64_t>(0, total - last - begin); i < n; ++i) {
      rows.push_back(static_cast<int64_t>(batch.size()) + i);
    }
    add(cache.get(), tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(n)));
    for (size_t i = 1; i < others.size(); ++i)
      add(others[i].cache.get(), Chatter(others[i].step, begin, vocab));
    HF_ASSIGN_OR_RETURN(KvBatch kv, KvBatch::Begin(slices, workspace_, *pool_));
    HF_RETURN_IF_ERROR(model().Forward(batch, kv, rows, logits.data() + written * vocab));
    written += static_cast<int64_t>(rows.size());
    HF_RETURN_IF_ERROR(kv.Commit());
  }
  return logits;
}

Result<std::vector<int32_t>> ModelRunner::Greedy(std::span<const int32_t> prompt, int64_t n,
                                                 const RunOptions& options) {
  const int64_t vocab = model().config().vocab_size;
  HF_ASSIGN_OR_RETURN(auto cache, NewSequence(options, static_cast<int64_t>(prompt.size()) + n));
  std::vector<int32_t> next(prompt.begin(), prompt.end());
  std::vector<int32_t> out;
  std::vector<float> logits(static_cast<size_t>(vocab));
  while (static_cast<int64_t>(out.size()) < n) {
    const BatchSlice slice{cache.get(), static_cast<int64_t>(next.size())};
    const int64_t last = slice.tokens - 1;
    HF_ASSIGN_OR_RETURN(KvBatch kv, KvBatch::Begin({&slice, 1}, workspace_, *pool_));
    HF_RETURN_IF_ERROR(model().Forward(next, kv, {&last, 1}, logits.data()));
    HF_RETURN_IF_ERROR(kv.Commit());
    out.push_back(ArgMax(logits));
    next = {out.back()};
  }
  return out;
}

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double MeanKlDivergence(std::span<const float> reference, std::span<const float> other, int64_t vocab) {
  const auto width = static_cast<size_t>(vocab);
  const size_t rows = reference.size() / width;
  const auto log_sum = [](std::span<const float> x) {
    const double top = static_cast<double>(*std::max_element(x.begin(), x.end()));
    double sum = 0.0;
    for (const float v : x) sum += std::exp(static_cast<double>(v) - top);
    return top + std::log(sum);
  };
  double total = 0.0;
  for (size_t r = 0; r < rows; ++r) {
    const auto p = reference.subspan(r * width, width);
    const auto q = other.subspan(r * width, width);
    const double p_sum = log_sum(p);
    const double q_sum = log_sum(q);
    for (size_t i = 0; i < width; ++i) {
      const double log_p = static_cast<double>(p[i]) - p_sum;
      total += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - q_sum));
    }
  }
  return total / static_cast<double>(rows);
}

}  // namespace holdfast
