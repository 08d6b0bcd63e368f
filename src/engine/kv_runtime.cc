// The public cache API (holdfast/kv_cache.h) over cache/ and kv/.
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "cache/sequence_cache.h"
#include "holdfast/kv_cache.h"
#include "kv/batch.h"
#include "simd/isa.h"

namespace holdfast {
namespace {

class SequenceHandle final : public KvSequence {
 public:
  explicit SequenceHandle(std::unique_ptr<SequenceCache> cache) : cache_(std::move(cache)) {}

  const CacheConfig& config() const override { return cache_->config(); }
  int64_t length_tokens() const override { return cache_->length(); }
  Status Rewind(int64_t n) override { return cache_->Rewind(n); }
  int64_t rewindable_tokens() const override { return cache_->rewindable(); }
  void Clear() override { cache_->Clear(); }
  Result<std::unique_ptr<KvSequence>> Fork() const override {
    HF_ASSIGN_OR_RETURN(auto copy, cache_->Fork());
    return std::unique_ptr<KvSequence>(std::make_unique<SequenceHandle>(std::move(copy)));
  }
  CacheBytes allocated() const override { return cache_->bytes(); }
  int64_t live_bytes() const override { return cache_->live_bytes(); }

  SequenceCache* cache() { return cache_.get(); }

 private:
  std::unique_ptr<SequenceCache> cache_;
};

class StepHandle final : public KvStep {
 public:
  StepHandle(KvBatch batch, int layers) : batch_(std::move(batch)), layers_(layers) {}

  int64_t tokens() const override { return batch_.tokens(); }
  std::span<const int64_t> positions() const override { return batch_.positions(); }
  Status Attend(int layer, int q_heads, const float* q, const float* k, const float* v,
                const AttentionRule& rule, float* out) override {
    if (layer < 0 || layer >= layers_) {
      return InvalidArgument("attend: layer is " + std::to_string(layer) + ", must be in [0, " +
                             std::to_string(layers_) + ")");
    }
    return batch_.Attend(static_cast<LayerId>(layer), q_heads, q, k, v, rule, out);
  }
  Status Commit() override { return batch_.Commit(); }

 private:
  KvBatch batch_;
  int layers_;
};

class RuntimeHandle final : public KvRuntime {
 public:
  RuntimeHandle(std::unique_ptr<ThreadPool> pool, int64_t limit_bytes)
      : pool_(std::move(pool)), memory_(std::make_shared<CacheMemory>(limit_bytes)) {}

  Result<std::unique_ptr<KvSequence>> NewSequence(const CacheConfig& config) override {
    HF_ASSIGN_OR_RETURN(auto cache, SequenceCache::Create(config, memory_));
    return std::unique_ptr<KvSequence>(std::make_unique<SequenceHandle>(std::move(cache)));
  }

  Result<std::unique_ptr<KvStep>> Begin(std::span<const KvSlice> slices) override {
    std::vector<BatchSlice> batch;
    int layers = 0;
    for (size_t i = 0; i < slices.size(); ++i) {
      const KvSlice& slice = slices[i];
      auto* handle = dynamic_cast<SequenceHandle*>(slice.sequence);
      if (handle == nullptr || &handle->cache()->memory() != memory_.get()) {
        return InvalidArgument("begin step: the sequence of slice " + std::to_string(i) + " is " +
                               (slice.sequence == nullptr ? "null" : "not of this runtime"));
      }
      batch.push_back({handle->cache(), slice.tokens});
      layers = handle->cache()->layers();
    }
    HF_ASSIGN_OR_RETURN(KvBatch begun, KvBatch::Begin(batch, workspace_, *pool_));
    return std::unique_ptr<KvStep>(std::make_unique<StepHandle>(std::move(begun), layers));
  }

  int64_t allocated_bytes() const override { return memory_->allocated_bytes(); }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::shared_ptr<CacheMemory> memory_;
  AttentionWorkspace workspace_;
};

}  // namespace

Result<std::unique_ptr<KvRuntime>> KvRuntime::Create(const KvRuntimeOptions& options) {
  HF_RETURN_IF_ERROR(CheckForcedIsa());
  if (options.limit_bytes < 0) {
    return InvalidArgument("kv runtime: limit_bytes is " + std::to_string(options.limit_bytes) +
                           ", must be >= 0");
  }
  HF_ASSIGN_OR_RETURN(auto pool, ThreadPool::Create(options.threads));
  return std::unique_ptr<KvRuntime>(std::make_unique<RuntimeHandle>(std::move(pool), options.limit_bytes));
}

}  // namespace holdfast
