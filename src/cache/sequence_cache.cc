#include "cache/sequence_cache.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"

namespace holdfast {
namespace {

// Calls `f` with the cache of whatever kind a layer has.
template <typename Layer, typename F>
decltype(auto) Visit(Layer& layer, F f) {
  return std::visit([&](auto& cache) -> decltype(auto) { return f(*cache); }, layer);
}

}  // namespace

Result<std::unique_ptr<SequenceCache>> SequenceCache::Create(const CacheConfig& config,
                                                             std::shared_ptr<CacheMemory> memory) {
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  auto sequence = std::unique_ptr<SequenceCache>(new SequenceCache());
  sequence->config_ = config;
  sequence->memory_ = std::move(memory);
  for (int layer = 0; layer < static_cast<int>(config.layers.size()); ++layer) {
    HF_ASSIGN_OR_RETURN(auto cache, SpanCache::Create(config, layer, sequence->memory_));
    sequence->layers_.emplace_back(std::move(cache));
  }
  sequence->ListUnits();
  return sequence;
}

void SequenceCache::ListUnits() {
  for (LayerCache& layer : layers_) {
    Visit(layer, [this](auto& cache) {
      units_.push_back(&cache);
      if (cache.protected_rows() != nullptr) units_.push_back(cache.protected_rows());
    });
  }
}

Status SequenceCache::Adopt(int64_t length, const std::function<BlockId(int unit, int64_t n)>& id) {
  HF_RETURN_IF_ERROR(CheckUsable("adopt"));
  if (length > config_.max_context) {
    return OutOfRange("adopt: " + std::to_string(length) + " tokens, max_context is " +
                      std::to_string(config_.max_context));
  }
  for (int u = 0; u < units(); ++u) {
    const Status taken =
        units_[static_cast<size_t>(u)]->Adopt(length, [&id, u](int64_t n) { return id(u, n); });
    if (taken.ok()) continue;
    Clear();
    return taken;
  }
  length_ = length;
  return OkStatus();
}

int64_t SequenceCache::MostGrowthBytes(int64_t length, SpanCache::SharedWith who) const {
  int64_t sum = 0;
  for (const LayerCache& layer : layers_)
    sum += Visit(layer, [&](const auto& cache) { return cache.MostGrowthBytes(length, who); });
  return sum;
}

SpanCache& SequenceCache::layer(LayerId id) {
  return *std::get<std::unique_ptr<SpanCache>>(layers_[static_cast<size_t>(id)]);
}

const SpanCache& SequenceCache::layer(LayerId id) const {
  return *std::get<std::unique_ptr<SpanCache>>(layers_[static_cast<size_t>(id)]);
}

Status SequenceCache::CheckUsable(const char* operation) const {
  if (damaged_) {
    return DataLoss(std::string(operation) + ": the sequence of " + std::to_string(length_) +
                    " tokens lost rows to a step that failed; clear it first");
  }
  if (step_tokens_ > 0) {
    return FailedPrecondition(std::string(operation) + ": a step of " + std::to_string(step_tokens_) +
                              " tokens is open");
  }
  return OkStatus();
}

Status SequenceCache::Rewind(int64_t n) {
  HF_RETURN_IF_ERROR(CheckUsable("rewind"));
  if (n > rewindable()) {
    // The layer that takes back least says why.
    const auto least = std::min_element(layers_.begin(), layers_.end(), [](const auto& a, const auto& b) {
      const auto of = [](const auto& cache) { return cache.rewindable(); };
      return Visit(a, of) < Visit(b, of);
    });
    return Visit(*least, [n](auto& cache) { return cache.Rewind(n); });
  }
  for (LayerCache& layer : layers_) {
    HF_RETURN_IF_ERROR(Visit(layer, [n](auto& cache) { return cache.Rewind(n); }));
  }
  length_ -= n;
  return OkStatus();
}

int64_t SequenceCache::rewindable() const {
  int64_t least = length_;
  for (const LayerCache& layer : layers_) {
    least = std::min(least, Visit(layer, [](const auto& cache) { return cache.rewindable(); }));
  }
  return least;
}

Result<std::unique_ptr<SequenceCache>> SequenceCache::Fork() const {
  HF_RETURN_IF_ERROR(CheckUsable("fork"));
  auto copy = std::unique_ptr<SequenceCache>(new SequenceCache());
  copy->config_ = config_;
  copy->memory_ = memory_;
  copy->length_ = length_;
  for (const LayerCache& layer : layers_) {
    const Status forked = Visit(layer, [&](const auto& cache) -> Status {
      HF_ASSIGN_OR_RETURN(auto fork, cache.Fork());
      copy->layers_.emplace_back(std::move(fork));
      return OkStatus();
    });
    HF_RETURN_IF_ERROR(forked);
  }
  copy->ListUnits();
  return copy;
}

void SequenceCache::Clear() {
  for (LayerCache& layer : layers_) Visit(layer, [](auto& cache) { cache.Clear(); });
  length_ = 0;
  step_tokens_ = 0;
  damaged_ = false;
}

CacheBytes SequenceCache::bytes() const {
  CacheBytes sum;
  for (const LayerCache& layer : layers_)
    sum += Visit(layer, [](const auto& cache) { return cache.bytes(); });
  return sum;
}

int64_t SequenceCache::live_bytes() const {
  int64_t sum = 0;
  for (const LayerCache& layer : layers_)
    sum += Visit(layer, [](const auto& cache) { return cache.live_bytes(); });
  return sum;
}

Status SequenceCache::BeginStep(int64_t tokens) {
  HF_RETURN_IF_ERROR(CheckUsable("append"));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Status reserved = Visit(layers_[i], [tokens](auto& cache) { return cache.Reserve(tokens); });
    if (reserved.ok()) continue;
    for (size_t j = 0; j < i; ++j) Visit(layers_[j], [](auto& cache) { cache.TrimToLength(); });
    return reserved;
  }
  step_tokens_ = tokens;
  ++steps_begun_;
  return OkStatus();
}

Status SequenceCache::CommitStep() {
  if (step_tokens_ == 0) return FailedPrecondition("commit: no step is open");
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t have = Visit(layers_[i], [](const auto& cache) { return cache.length(); });
    if (have != length_ + step_tokens_) {
      return FailedPrecondition("commit: layer " + std::to_string(i) + " holds " + std::to_string(have) +
                                " tokens, must hold " + std::to_string(length_ + step_tokens_));
    }
  }
  length_ += step_tokens_;
  step_tokens_ = 0;
  return OkStatus();
}

Status SequenceCache::AbortStep() {
  if (step_tokens_ == 0) return FailedPrecondition("abort: no step is open");
  step_tokens_ = 0;
  for (LayerCache& layer : layers_) {
    const Status back = Visit(layer, [this](auto& cache) {
      const int64_t appended = cache.length() - length_;
      if (appended > 0) return cache.Rewind(appended);
      cache.TrimToLength();
      return OkStatus();
    });
    if (!back.ok()) damaged_ = true;
  }
  return damaged_ ? CheckUsable("abort") : OkStatus();
}

}  // namespace holdfast
