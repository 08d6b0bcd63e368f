#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>

#include "attention/attend.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "cache/span_cache.h"
#include "engine/read_loop.h"
#include "engine/stopwatch.h"
#include "holdfast/bench.h"
#include "simd/isa.h"

namespace holdfast {
namespace {

// The layers of one cell are cycled, and together well past the processor's caches. Fewer where many cells share the
// memory.
constexpr int64_t kMostCycledBytes = int64_t{1} << 30;
constexpr int64_t kMinLayers = 4;
constexpr int kRounds = 7;

// One cell's caches, each a layer of a model that a decode step reads in turn.
struct Fixture {
  AttentionCell cell;
  TileGeometry tiles;
  std::vector<std::unique_ptr<SpanCache>> layers;
  std::vector<std::vector<Span>> spans;
  VisibleRange visible;
  std::vector<double> attend_ns, read_ns, sparse_ns;  // a layer, a sample a round
};

CacheConfig CellConfig(const AttentionBenchOptions& options, const KvSpec& codec, StorageId storage,
                       int64_t rows) {
  CacheConfig config;
  LayerConfig layer;
  layer.layout = options.layout;
  layer.k_codec = codec.k;
  layer.v_codec = codec.v;
  layer.shape = {options.head_dim, options.head_dim, false};
  layer.kv_heads = options.kv_heads;
  layer.sparse_pages = options.sparse_pages;
  config.layers = {layer};
  config.storage = storage;
  config.max_context = rows;
  return config;
}

// What the cells that are measured side by side may take together.
double MemoryLimit() {
  return 0.5 * static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

int64_t CellLayers(const AttentionBenchOptions& options, int64_t rows, int64_t row_bytes) {
  const auto cells = static_cast<double>(options.storages.size() * options.codecs.size());
  const int64_t cycled = std::min(kMostCycledBytes, static_cast<int64_t>(0.8 * MemoryLimit() / cells));
  return std::max(kMinLayers, (cycled + rows * row_bytes - 1) / (rows * row_bytes));
}

// The cells of one number of rows are measured side by side and must fit together.
Status CheckMemory(const AttentionBenchOptions& options, int64_t rows) {
  double bytes = 0.0;
  for (const StorageId storage : options.storages) {
    for (const KvSpec& codec : options.codecs) {
      const CacheConfig config = CellConfig(options, codec, storage, rows);
      HF_ASSIGN_OR_RETURN(const CacheBytes plan, PlanCache(config, rows));
      HF_ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(config.layers[0]));
      bytes +=
          static_cast<double>(plan.total_bytes()) * static_cast<double>(CellLayers(options, rows, row_bytes));
    }
  }
  const double limit = MemoryLimit();
  if (bytes <= limit) return OkStatus();
  return ResourceExhausted("bench attention: the caches of " + std::to_string(rows) + " rows are " +
                           std::to_string(static_cast<int64_t>(bytes)) + " bytes, half of the memory is " +
                           std::to_string(static_cast<int64_t>(limit)) +
                           "; ask for fewer rows, heads, codecs or storages");
}

Result<Fixture> MakeFixture(const AttentionBenchOptions& options, const KvSpec& codec, StorageId storage,
                            int64_t rows) {
  Fixture f;
  const CacheConfig config = CellConfig(options, codec, storage, rows);
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  HF_ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(config.layers[0]));
  const int64_t layers = CellLayers(options, rows, row_bytes);

  constexpr int64_t kFillTokens = 256;
  std::vector<float> values(static_cast<size_t>(kFillTokens * options.kv_heads * options.head_dim));
  std::minstd_rand random(7);
  for (float& x : values) x = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  const auto memory = std::make_shared<CacheMemory>();
  for (int64_t i = 0; i < layers; ++i) {
    HF_ASSIGN_OR_RETURN(auto cache, SpanCache::Create(config, 0, memory));
    while (cache->length() < rows) {
      int64_t n = std::min(kFillTokens, rows - cache->length());
      if (cache->max_append() > 0) n = std::min(n, cache->max_append());
      HF_RETURN_IF_ERROR(cache->Append(n, values.data(), values.data()));
    }
    f.spans.emplace_back();
    cache->AppendSpans(rows - 1, f.spans.back());
    f.visible = cache->visible(rows - 1);
    f.layers.push_back(std::move(cache));
  }
  const VisibleRange& v = f.visible;
  const int64_t visible_rows = v.end - v.begin + std::min(v.sink_end, v.begin);
  f.tiles = MakeTileGeometry(config.layers[0]);
  f.cell = {codec,
            storage,
            options.layout,
            options.q_heads,
            options.kv_heads,
            options.head_dim,
            rows,
            visible_rows * options.kv_heads * (f.tiles.k_tile_bytes + f.tiles.v_tile_bytes) / kTileRows};
  return f;
}

// A task reads a long run of one head's spans, so that handing out tasks costs nothing beside small blocks.
void ReadLayer(const Fixture& f, size_t layer, const ReadLoopKernels& kernels, ThreadPool& pool,
               std::vector<uint32_t>& sink) {
  constexpr int64_t kRunsPerHead = 8;
  const std::vector<Span>& spans = f.spans[layer];
  const TileGeometry& tiles = f.tiles;
  const auto heads = static_cast<int64_t>(f.cell.kv_heads);
  const auto count = static_cast<int64_t>(spans.size());
  const int64_t runs = std::min(kRunsPerHead, count);
  pool.ParallelFor(runs * heads, [&](int64_t task, int thread) {
    const int64_t head = task % heads;
    uint32_t seen = 0;
    for (int64_t i = task / heads * count / runs; i < (task / heads + 1) * count / runs; ++i) {
      const Span& span = spans[static_cast<size_t>(i)];
      seen ^=
          kernels.read(span.k + head * span.k_head_stride_bytes, span.rows * tiles.k_tile_bytes / kTileRows) ^
          kernels.read(span.v + head * span.v_head_stride_bytes, span.rows * tiles.v_tile_bytes / kTileRows);
    }
    sink[static_cast<size_t>(thread) * 16] ^= seen;
  });
}

Status MeasureRound(Fixture& f, const AttentionBenchOptions& options, AttentionWorkspace& workspace,
                    ThreadPool& pool) {
  const Isa isa = ActiveIsa();
  std::vector<float> q(static_cast<size_t>(options.q_heads * options.head_dim), 0.125f);
  std::vector<float> out(q.size());
  AttentionSequence sequence{0, 1, {}, {&f.visible, 1}};
  AttentionCall call;
  call.shape = {options.head_dim, options.head_dim, false};
  call.q_heads = options.q_heads;
  call.kv_heads = options.kv_heads;
  call.k_codec = f.cell.codec.k;
  call.v_codec = f.cell.codec.v;
  call.rule.scale = 0.125f;
  call.sequences = {&sequence, 1};
  call.q = q.data();
  call.out = out.data();
  Status failed;
  const auto attend_all = [&] {
    for (const auto& spans : f.spans) {
      sequence.spans = spans;
      if (Status s = Attend(call, isa, workspace, pool); !s.ok()) failed = std::move(s);
    }
  };
  const double attend_ns = TimeNs(attend_all);
  call.sparse_pages = options.sparse_pages;
  const double sparse_ns = options.sparse_pages > 0 ? TimeNs(attend_all) : 0.0;
  HF_RETURN_IF_ERROR(failed);
  std::vector<uint32_t> sink(static_cast<size_t>(pool.threads()) * 16);
  const ReadLoopKernels& kernels = HOLDFAST_SELECT_KERNELS(isa, kReadLoopKernels);
  const double read_ns = TimeNs([&] {
    for (size_t i = 0; i < f.spans.size(); ++i) ReadLayer(f, i, kernels, pool, sink);
  });
  const auto layers = static_cast<double>(f.spans.size());
  f.attend_ns.push_back(attend_ns / layers);
  f.read_ns.push_back(read_ns / layers);
  f.sparse_ns.push_back(sparse_ns / layers);
  return OkStatus();
}

Status CheckOptions(const AttentionBenchOptions& o) {
  if (o.kv_heads < 1 || o.q_heads < 1 || o.q_heads % o.kv_heads != 0) {
    return InvalidArgument("bench attention: heads are " + std::to_string(o.q_heads) + "/" +
                           std::to_string(o.kv_heads) + ", query heads must be a multiple of KV heads");
  }
  if (o.head_dim < 1 || o.head_dim > kMaxDim) {
    return InvalidArgument("bench attention: head_dim is " + std::to_string(o.head_dim) +
                           ", must be in [1, " + std::to_string(kMaxDim) + "]");
  }
  for (const int64_t rows : o.rows) {
    if (rows < 1 || rows > (int64_t{1} << 24)) {
      return InvalidArgument("bench attention: rows is " + std::to_string(rows) +
                             ", must be in [1, 16777216]");
    }
    HF_RETURN_IF_ERROR(CheckMemory(o, rows));
  }
  return OkStatus();
}

}  // namespace

Result<AttentionBench> BenchAttention(const AttentionBenchOptions& options) {
  HF_RETURN_IF_ERROR(CheckForcedIsa());
  HF_RETURN_IF_ERROR(CheckOptions(options));
  HF_ASSIGN_OR_RETURN(auto pool, ThreadPool::Create(options.threads));
  AttentionWorkspace workspace;
  AttentionBench result;
  std::vector<double> read_rates;
  for (const int64_t rows : options.rows) {
    std::vector<Fixture> fixtures;
    for (const StorageId storage : options.storages) {
      for (const KvSpec& codec : options.codecs) {
        HF_ASSIGN_OR_RETURN(Fixture f, MakeFixture(options, codec, storage, rows));
        fixtures.push_back(std::move(f));
      }
    }
    for (int round = 0; round < kRounds; ++round) {  // interleaved, so that noise meets every cell alike
      for (Fixture& f : fixtures) HF_RETURN_IF_ERROR(MeasureRound(f, options, workspace, *pool));
    }
    for (Fixture& f : fixtures) {
      f.cell.ns = Median(f.attend_ns);
      f.cell.sparse_ns = Median(f.sparse_ns);
      const auto bytes = static_cast<double>(f.cell.bytes);
      f.cell.gb_per_s = bytes / f.cell.ns;
      const double read_gb_per_s = bytes / Median(f.read_ns);
      f.cell.fraction_of_read = f.cell.gb_per_s / read_gb_per_s;
      read_rates.push_back(read_gb_per_s);
    }
    for (Fixture& f : fixtures) {
      for (const Fixture& g : fixtures) {
        if (g.cell.codec == KvSpec{CodecId::kF16, CodecId::kF16} && g.cell.storage == f.cell.storage)
          f.cell.speed_vs_f16 = g.cell.ns / f.cell.ns;
      }
      result.cells.push_back(f.cell);
    }
  }
  if (!read_rates.empty()) result.read_gb_per_s = Median(read_rates);
  return result;
}

}  // namespace holdfast
