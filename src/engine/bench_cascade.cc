// Decode of a batch whose sequences share their first rows, with cascade and without.
#include <algorithm>
#include <memory>
#include <string>

#include "attention/attend.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "cache/span_cache.h"
#include "engine/stopwatch.h"
#include "holdfast/bench.h"
#include "simd/isa.h"

namespace holdfast {
namespace {

// Layers are cycled, together well past what the processor's caches hold of one.
constexpr int64_t kCycledBytes = int64_t{256} << 20;
constexpr int64_t kMostLayers = 64;
constexpr int kRounds = 9;
constexpr int64_t kFillTokens = 256;

// One cell: `members` forks of each layer's prefix, and what a step of them all asks for.
struct Fixture {
  CascadeCell cell;
  std::vector<std::vector<std::unique_ptr<SpanCache>>> layers;  // [layers][members]
  std::vector<std::vector<std::vector<Span>>> spans;            // the same
  VisibleRange visible;
  std::vector<double> cascade_ns, apart_ns;  // a layer, a sample a round
};

CacheConfig CellConfig(const CascadeBenchOptions& o, const KvSpec& codec, int64_t rows) {
  CacheConfig config;
  LayerConfig layer;
  layer.k_codec = codec.k;
  layer.v_codec = codec.v;
  layer.shape = {o.head_dim, o.head_dim, false};
  layer.kv_heads = o.kv_heads;
  config.layers = {layer};
  config.storage = StorageId::kPaged;
  config.max_context = rows;
  return config;
}

Status Fill(SpanCache& cache, int64_t rows, const std::vector<float>& values) {
  while (cache.length() < rows) {
    const int64_t n = std::min(kFillTokens, rows - cache.length());
    HF_RETURN_IF_ERROR(cache.Append(n, values.data(), values.data()));
  }
  return OkStatus();
}

Result<Fixture> MakeFixture(const CascadeBenchOptions& o, const KvSpec& codec, int64_t members,
                            int64_t shared) {
  Fixture f;
  f.cell = {.codec = codec, .members = members, .shared_rows = shared, .own_rows = o.own_rows};
  const int64_t rows = shared + o.own_rows;
  const CacheConfig config = CellConfig(o, codec, rows);
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  HF_ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(config.layers[0]));
  const int64_t layer_bytes = (shared + members * o.own_rows) * row_bytes;
  const int64_t layers = std::clamp<int64_t>(kCycledBytes / layer_bytes, 2, kMostLayers);
  std::vector<float> values(static_cast<size_t>(kFillTokens * o.kv_heads * o.head_dim));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 2001) * 1e-3f - 1.0f;
  const auto memory = std::make_shared<CacheMemory>();
  for (int64_t l = 0; l < layers; ++l) {
    HF_ASSIGN_OR_RETURN(auto prefix, SpanCache::Create(config, 0, memory));
    HF_RETURN_IF_ERROR(Fill(*prefix, shared, values));
    f.layers.emplace_back();
    f.spans.emplace_back();
    for (int64_t m = 0; m < members; ++m) {
      HF_ASSIGN_OR_RETURN(auto fork, prefix->Fork());
      HF_RETURN_IF_ERROR(Fill(*fork, rows, values));
      f.spans.back().emplace_back();
      fork->AppendSpans(rows - 1, f.spans.back().back());
      f.visible = fork->visible(rows - 1);
      f.layers.back().push_back(std::move(fork));
    }
  }
  return f;
}

Result<double> AttendAll(const Fixture& f, const CascadeBenchOptions& o, bool cascade,
                         AttentionWorkspace& workspace, ThreadPool& pool) {
  const auto members = static_cast<size_t>(f.cell.members);
  std::vector<float> q(members * static_cast<size_t>(o.q_heads * o.head_dim), 0.125f);
  std::vector<float> out(q.size());
  std::vector<AttentionSequence> sequences(members);
  AttentionCall call;
  call.shape = {o.head_dim, o.head_dim, false};
  call.q_heads = o.q_heads;
  call.kv_heads = o.kv_heads;
  call.k_codec = f.cell.codec.k;
  call.v_codec = f.cell.codec.v;
  call.rule.scale = 0.125f;
  call.cascade_bytes = cascade ? kCascadeBytes : 0;
  call.sequences = sequences;
  call.q = q.data();
  call.out = out.data();
  Status failed;
  const Isa isa = ActiveIsa();
  const double ns = TimeNs([&] {
    for (const auto& layer : f.spans) {
      for (size_t m = 0; m < members; ++m)
        sequences[m] = {static_cast<int64_t>(m), 1, layer[m], {&f.visible, 1}};
      if (Status s = Attend(call, isa, workspace, pool); !s.ok()) failed = std::move(s);
    }
  });
  HF_RETURN_IF_ERROR(failed);
  return ns / static_cast<double>(f.spans.size());
}

Status CheckOptions(const CascadeBenchOptions& o) {
  if (o.kv_heads < 1 || o.q_heads < 1 || o.q_heads % o.kv_heads != 0) {
    return InvalidArgument("bench cascade: heads are " + std::to_string(o.q_heads) + "/" +
                           std::to_string(o.kv_heads) + ", query heads must be a multiple of KV heads");
  }
  const auto check = [](const char* what, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return OkStatus();
    return InvalidArgument(std::string("bench cascade: ") + what + " is " + std::to_string(value) +
                           ", must be in [1, " + std::to_string(most) + "]");
  };
  HF_RETURN_IF_ERROR(check("head_dim", o.head_dim, 1024));
  HF_RETURN_IF_ERROR(check("own_rows", o.own_rows, 1 << 20));
  for (const int64_t members : o.members) HF_RETURN_IF_ERROR(check("members", members, 256));
  for (const int64_t rows : o.shared_rows) HF_RETURN_IF_ERROR(check("shared_rows", rows, 1 << 20));
  return OkStatus();
}

}  // namespace

Result<std::vector<CascadeCell>> BenchCascade(const CascadeBenchOptions& options) {
  HF_RETURN_IF_ERROR(CheckForcedIsa());
  HF_RETURN_IF_ERROR(CheckOptions(options));
  HF_ASSIGN_OR_RETURN(auto pool, ThreadPool::Create(options.threads));
  AttentionWorkspace workspace;
  std::vector<CascadeCell> cells;
  for (const KvSpec& codec : options.codecs) {
    for (const int64_t members : options.members) {
      for (const int64_t shared : options.shared_rows) {
        HF_ASSIGN_OR_RETURN(Fixture f, MakeFixture(options, codec, members, shared));
        for (int round = 0; round < kRounds; ++round) {  // in turns, so that noise meets both alike
          for (const bool cascade : {round % 2 == 0, round % 2 != 0}) {
            HF_ASSIGN_OR_RETURN(const double ns, AttendAll(f, options, cascade, workspace, *pool));
            (cascade ? f.cascade_ns : f.apart_ns).push_back(ns);
          }
        }
        f.cell.cascade_ns = Median(f.cascade_ns);
        f.cell.apart_ns = Median(f.apart_ns);
        cells.push_back(f.cell);
      }
    }
  }
  return cells;
}

}  // namespace holdfast
