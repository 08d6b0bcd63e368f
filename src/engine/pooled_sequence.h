// A sequence of a cache pool in one owner's hands: closed when it is destroyed.
#pragma once

#include <cstdint>
#include <memory>

#include "pool/cache_pool.h"

namespace holdfast {

// What a session runs on. Its pool has no budget and shares nothing but what is forked, so rooms need not be made for
// steps. Not thread-safe, and so are all forks of one origin together.
class PooledSequence {
 public:
  // Sequences that one origin and its forks may be at a time.
  static constexpr int kMostForks = 1024;

  // An empty sequence in a pool of its own. Errors: those of CachePool::Create.
  static Result<PooledSequence> Open(const CacheConfig& config);
  // A second one with the same rows, in the same pool. Errors: those of CachePool::Fork.
  Result<PooledSequence> Fork() const;

  ~PooledSequence();
  PooledSequence(PooledSequence&& other) noexcept;
  PooledSequence& operator=(PooledSequence&& other) noexcept;

  SequenceCache* get() const { return cache_; }
  SequenceCache* operator->() const { return cache_; }
  SequenceCache& operator*() const { return *cache_; }

 private:
  PooledSequence(std::shared_ptr<CachePool> pool, SequenceHandle handle);

  std::shared_ptr<CachePool> pool_;
  SequenceHandle handle_;
  SequenceCache* cache_ = nullptr;  // the handle's
};

}  // namespace holdfast
