// Measurements of the cache and attention, for `holdfast bench`.
#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/cache_config.h"
#include "holdfast/engine.h"
#include "holdfast/status.h"

namespace holdfast {

// Appending one token to caches that already hold `rows`: 20 bf16 caches of 4 heads x 512, beside a cache
// that is concatenated anew for each token.
struct AppendCell {
  int64_t rows = 0;
  double ours_ns = 0, concatenate_ns = 0;  // one token to all caches, median
};
Result<std::vector<AppendCell>> BenchAppend(const std::vector<int64_t>& rows);

struct AttentionBenchOptions {
  std::vector<KvSpec> codecs;
  std::vector<StorageId> storages;
  std::vector<int64_t> rows;
  int q_heads = 9, kv_heads = 3, head_dim = 64, threads = 0;
  LayoutConfig layout;
  int64_t sparse_pages = 0;  // > 0: every cell is also attended with so many pages at most
};
struct AttentionCell {
  KvSpec codec;
  StorageId storage = StorageId::kContiguous;
  LayoutConfig layout;
  int q_heads = 0, kv_heads = 0, head_dim = 0;
  int64_t rows = 0, bytes = 0;  // encoded bytes one decode step reads
  double ns = 0, gb_per_s = 0, fraction_of_read = 0, speed_vs_f16 = 0;
  double sparse_ns = 0;  // of the same rows with sparse_pages; 0 without
};
struct AttentionBench {
  double read_gb_per_s = 0;  // a plain loop over the same buffers, same threads, same run
  std::vector<AttentionCell> cells;
};
// Decode attention of one token, the buffers of as many layers cycled as it takes to be well past the
// processor's caches.
Result<AttentionBench> BenchAttention(const AttentionBenchOptions& options);

struct CascadeBenchOptions {
  std::vector<KvSpec> codecs;
  std::vector<int64_t> members;      // sequences in a step
  std::vector<int64_t> shared_rows;  // that lie in the same blocks for all of them
  int64_t own_rows = 128;            // of each, after those
  int q_heads = 9, kv_heads = 3, head_dim = 64, threads = 0;
};
struct CascadeCell {
  KvSpec codec;
  int64_t members = 0, shared_rows = 0, own_rows = 0;
  double cascade_ns = 0, apart_ns = 0;  // one layer's attention of the whole batch, median
};
// Decode attention of a batch, shared rows read once or once for each.
Result<std::vector<CascadeCell>> BenchCascade(const CascadeBenchOptions& options);

struct DecodeCell {
  bool prefill = false;
  int64_t depth = 0, tokens = 0;
  double tokens_per_s = 0;
};
// prompts: prefill of that many tokens from empty. depths: decode of `decode_tokens` tokens behind that many.
Result<std::vector<DecodeCell>> BenchDecode(Engine& engine, const CacheOptions& cache,
                                            const std::vector<int64_t>& depths,
                                            const std::vector<int64_t>& prompts, int64_t decode_tokens,
                                            int batch_tokens);

}  // namespace holdfast
