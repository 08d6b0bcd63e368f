#include "engine/pooled_sequence.h"

#include <utility>

#include "base/status_macros.h"

namespace holdfast {

PooledSequence::PooledSequence(std::shared_ptr<CachePool> pool, SequenceHandle handle)
    : pool_(std::move(pool)), handle_(handle), cache_(pool_->cache(handle).value()) {}

PooledSequence::~PooledSequence() {
  // Refused only where it was moved from.
  if (pool_ != nullptr) static_cast<void>(pool_->Close(handle_));
}

PooledSequence::PooledSequence(PooledSequence&& other) noexcept
    : pool_(std::move(other.pool_)), handle_(other.handle_), cache_(other.cache_) {}

PooledSequence& PooledSequence::operator=(PooledSequence&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(handle_, other.handle_);
  std::swap(cache_, other.cache_);
  return *this;
}

Result<PooledSequence> PooledSequence::Open(const CacheConfig& config) {
  PoolOptions options;
  options.cache = config;
  options.max_sequences = kMostForks;
  HF_ASSIGN_OR_RETURN(std::shared_ptr<CachePool> pool, CachePool::Create(options));
  // The pool keeps room for what a sequence begins with; a session does not know that yet.
  const int32_t any_token = 0;
  HF_ASSIGN_OR_RETURN(const Opened opened, pool->Open({.tokens = {&any_token, 1}}, 0));
  return PooledSequence(std::move(pool), opened.handle);
}

Result<PooledSequence> PooledSequence::Fork() const {
  HF_ASSIGN_OR_RETURN(const SequenceHandle handle, pool_->Fork(handle_, cache_->length(), 0));
  return PooledSequence(pool_, handle);
}

}  // namespace holdfast
