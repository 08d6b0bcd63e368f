#include <cstring>
#include <random>
#include <string>

#include "base/arena.h"
#include "base/status_macros.h"
#include "cache/span_cache.h"
#include "engine/stopwatch.h"
#include "holdfast/bench.h"
#include "simd/isa.h"

namespace holdfast {
namespace {

constexpr int kCaches = 20;
constexpr int kHeads = 4;
constexpr int kDim = 512;
constexpr int64_t kMeasuredTokens = 200;

CacheConfig AppendConfig(int64_t rows) {
  CacheConfig config;
  LayerConfig layer;
  layer.k_codec = layer.v_codec = CodecId::kBf16;
  layer.shape = {kDim, kDim, false};
  layer.kv_heads = kHeads;
  config.layers.assign(kCaches, layer);
  config.max_context = rows + kMeasuredTokens;
  return config;
}

std::vector<float> RandomRows(int64_t tokens) {
  std::vector<float> rows(static_cast<size_t>(tokens * kHeads * kDim));
  std::minstd_rand random(1);
  for (float& x : rows) x = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  return rows;
}

Result<double> MeasureOurs(int64_t rows) {
  const CacheConfig config = AppendConfig(rows);
  const auto memory = std::make_shared<CacheMemory>();
  std::vector<std::unique_ptr<SpanCache>> caches;
  constexpr int64_t kFillTokens = 256;
  const std::vector<float> values = RandomRows(kFillTokens);
  for (int i = 0; i < kCaches; ++i) {
    HF_ASSIGN_OR_RETURN(auto cache, SpanCache::Create(config, i, memory));
    for (int64_t filled = 0; filled < rows; filled += kFillTokens) {
      HF_RETURN_IF_ERROR(cache->Append(std::min(kFillTokens, rows - filled), values.data(), values.data()));
    }
    caches.push_back(std::move(cache));
  }
  std::vector<double> samples;
  for (int64_t t = 0; t < kMeasuredTokens; ++t) {
    Status failed;
    samples.push_back(TimeNs([&] {
      for (const auto& cache : caches) {
        if (Status s = cache->Append(1, values.data(), values.data()); !s.ok()) failed = std::move(s);
      }
    }));
    HF_RETURN_IF_ERROR(failed);
  }
  return Median(std::move(samples));
}

// The same token into caches that are concatenated anew: each copies its rows into a fresh buffer. The twenty
// caches take turns with one source buffer, so that the largest case fits in memory.
Result<double> MeasureConcatenate(int64_t rows) {
  const int64_t row_bytes = int64_t{kHeads} * kDim * 2;
  HF_ASSIGN_OR_RETURN(HugeBuffer old_rows, HugeBuffer::Allocate(rows * row_bytes));
  std::memset(old_rows.data(), 1, static_cast<size_t>(rows * row_bytes));
  std::vector<double> samples;
  for (int repeat = 0; repeat < 3; ++repeat) {
    Status failed;
    samples.push_back(TimeNs([&] {
      for (int i = 0; i < 2 * kCaches; ++i) {  // K and V
        auto grown = HugeBuffer::Allocate((rows + 1) * row_bytes);
        if (!grown.ok()) {
          failed = grown.status();
          return;
        }
        std::memcpy(grown->data(), old_rows.data(), static_cast<size_t>(rows * row_bytes));
        std::memset(grown->data() + rows * row_bytes, 2, static_cast<size_t>(row_bytes));
      }
    }));
    HF_RETURN_IF_ERROR(failed);
  }
  return Median(std::move(samples));
}

}  // namespace

Result<std::vector<AppendCell>> BenchAppend(const std::vector<int64_t>& rows) {
  HF_RETURN_IF_ERROR(CheckForcedIsa());
  std::vector<AppendCell> cells;
  for (const int64_t n : rows) {
    if (n < 1 || n > (int64_t{1} << 20)) {
      return InvalidArgument("bench append: rows is " + std::to_string(n) + ", must be in [1, 1048576]");
    }
    AppendCell cell;
    cell.rows = n;
    HF_ASSIGN_OR_RETURN(cell.ours_ns, MeasureOurs(n));
    HF_ASSIGN_OR_RETURN(cell.concatenate_ns, MeasureConcatenate(n));
    cells.push_back(cell);
  }
  return cells;
}

}  // namespace holdfast
