// Inside CachePool: its parts are in cache_pool.cc (sequences and steps), pool_budget.cc (what may be allocated) and
// pool_prefixes.cc (what begins alike).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/checked.h"
#include "pool/cache_pool.h"
#include "pool/prefix_store.h"

namespace holdfast {

// "123 bytes"
inline std::string BytesText(int64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

struct CachePool::State {
  explicit State(const PoolOptions& pool_options) : options(pool_options) {}

  struct Sequence {
    SequenceId id = SequenceId::kNone;
    std::unique_ptr<SequenceCache> cache;
    BlockKey root = {};
    std::vector<NodeId> nodes;  // full blocks that it shares, each used by it
    int64_t reserved = 0;       // tokens
    bool closing = false;       // closed during a step
  };
  struct PinnedChain {
    std::vector<NodeId> nodes;
    int64_t bytes = 0;
    int64_t times = 0;
  };

  PoolOptions options;
  Sha256 cache_digest = {};
  std::shared_ptr<CacheMemory> memory;
  std::unique_ptr<SequenceCache> shape;   // an empty sequence: what every one looks like
  std::unique_ptr<PrefixStore> prefixes;  // null: nothing is shared
  std::map<BlockKey, PrefixIdentity> trees;
  std::vector<Sequence> slots;
  std::map<NodeId, PinnedChain> pinned;  // by the last node
  int64_t pinned_bytes = 0;
  int64_t index_base_bytes = 0;  // most that the index has but for its nodes
  int64_t last_id = 0;
  int64_t open = 0;
  int64_t block_total = 0;
  bool in_step = false;

  Status Init();
  int64_t Granule() const {
    return options.cache.storage == StorageId::kPaged ? options.cache.block_tokens : 1;
  }
  int64_t IndexBytes() const { return prefixes == nullptr ? 0 : prefixes->bytes(); }
  int64_t UsageBytes() const { return memory->allocated_bytes() + IndexBytes() + options.scratch_bytes; }
  int64_t IndexBytesFor(int64_t tokens) const {
    return prefixes == nullptr ? 0 : CeilDiv(tokens, options.cache.block_tokens) * prefixes->NodeBytes();
  }
  Result<Sequence*> Find(const char* operation, SequenceHandle handle);
  int64_t CommittedBytes() const;
  int64_t CommittedTokens() const;
  Status CheckCommitted(const char* operation) const;
  bool EvictFor(int64_t bytes, int64_t now);
  Status CheckSlot(const char* operation) const;  // that one is free
  Sequence& Take(std::unique_ptr<SequenceCache> cache, const BlockKey& root, int64_t reserve);
  SequenceHandle HandleOf(const Sequence& s) const { return {static_cast<int32_t>(&s - slots.data()), s.id}; }
  void BeginAnew(Sequence& s);  // as if it had reused nothing
  void Release(Sequence& s);
  Status Adopt(Sequence& s, const PrefixIndex::Match& match, int64_t length, int64_t now);
  Receipt Explain(const OpenRequest& request, const BlockKey& root, const PrefixIndex::Match& match,
                  int64_t usable) const;
  void RememberTree(const BlockKey& root, const PrefixIdentity& identity);
  std::vector<NodeId> Chain(const PrefixIdentity& identity, std::span<const int32_t> tokens) const;
  struct Elsewhere {
    bool other_config = false;  // of the same namespace
    bool other_namespace = false;
  };
  Elsewhere FoundElsewhere(const OpenRequest& request, const BlockKey& root, int64_t matched) const;
};

}  // namespace holdfast
