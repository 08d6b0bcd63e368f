// What may be allocated, what is, and what is given up for it.
#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "pool/cache_pool_state.h"

namespace holdfast {

using SharedWith = SpanCache::SharedWith;

Status CachePool::CheckEverFits(int64_t tokens) const {
  const PoolOptions& o = state_->options;
  if (tokens > o.cache.max_context) {
    return OutOfRange("admit: " + std::to_string(tokens) + " tokens, max_context is " +
                      std::to_string(o.cache.max_context));
  }
  if (o.budget_tokens != 0 && RoundUp(tokens, state_->Granule()) > o.budget_tokens) {
    return OutOfRange("admit: " + std::to_string(tokens) + " tokens in whole blocks are " +
                      std::to_string(RoundUp(tokens, state_->Granule())) + ", the budget is " +
                      std::to_string(o.budget_tokens) + " tokens");
  }
  if (o.budget_bytes == 0) return OkStatus();
  const int64_t need = state_->shape->MostGrowthBytes(tokens, SharedWith::kSequences) +
                       state_->IndexBytesFor(tokens) + state_->index_base_bytes + o.scratch_bytes;
  if (need <= o.budget_bytes) return OkStatus();
  return OutOfRange("admit: " + std::to_string(tokens) + " tokens take " + BytesText(need) +
                    " with the scratch of " + BytesText(o.scratch_bytes) + ", the budget is " +
                    BytesText(o.budget_bytes));
}

// What running sequences own and what they may still take: never more than the budget.
int64_t CachePool::State::CommittedBytes() const {
  const CacheMemory::Totals blocks = memory->totals();
  int64_t sum =
      options.scratch_bytes + index_base_bytes + pinned_bytes + memory->allocated_bytes() - blocks.idle_bytes;
  for (const Sequence& s : slots) {
    if (s.id == SequenceId::kNone) continue;
    sum += IndexBytesFor(s.reserved) + s.cache->MostGrowthBytes(s.reserved, SharedWith::kSequences);
  }
  return sum;
}

int64_t CachePool::State::CommittedTokens() const {
  int64_t sum = 0;
  for (const Sequence& s : slots) sum += s.id == SequenceId::kNone ? 0 : RoundUp(s.reserved, Granule());
  return sum;
}

Status CachePool::State::CheckCommitted(const char* operation) const {
  const int64_t tokens = options.budget_tokens == 0 ? 0 : CommittedTokens();
  if (tokens > options.budget_tokens) {
    return ResourceExhausted(std::string(operation) + ": " + std::to_string(tokens) +
                             " tokens would be reserved, the budget is " +
                             std::to_string(options.budget_tokens));
  }
  const int64_t bytes = options.budget_bytes == 0 ? 0 : CommittedBytes();
  if (bytes > options.budget_bytes) {
    return ResourceExhausted(std::string(operation) + ": " + BytesText(bytes) +
                             " would be reserved, the budget is " + std::to_string(options.budget_bytes));
  }
  return OkStatus();
}

bool CachePool::State::EvictFor(int64_t bytes, int64_t now) {
  if (options.budget_bytes == 0) return true;
  while (UsageBytes() + bytes > options.budget_bytes) {
    if (prefixes == nullptr || !prefixes->EvictOne(now)) return false;
  }
  return true;
}

int64_t CachePool::memory_usage_bytes() const {
  return state_->UsageBytes();
}

int64_t CachePool::budget_bytes() const {
  return state_->options.budget_bytes;
}

BlockCounts CachePool::blocks() const {
  const CacheMemory::Totals totals = state_->memory->totals();
  BlockCounts counts;
  counts.idle = totals.idle_blocks;
  counts.live = totals.blocks - totals.idle_blocks;
  counts.total = std::max(state_->block_total, totals.blocks);
  counts.free = counts.total - counts.live - counts.idle;
  return counts;
}

namespace {

Status Broken(const std::string& what, int64_t is, int64_t must) {
  return DataLoss("pool: " + what + " is " + std::to_string(is) + ", must be " + std::to_string(must));
}

// References that sequences and the index hold, counted anew.
struct Counted {
  int64_t owners = 0, kept = 0;
};
using CountedBlocks = std::map<const BlockPool*, std::map<BlockId, Counted>>;

Status CompareBlocks(const CountedBlocks& counted, const CacheMemory& memory) {
  for (const auto& [size, pool] : memory.pools()) {
    const auto found = counted.find(pool.get());
    int64_t idle = 0, live = 0;
    if (found != counted.end()) {
      for (const auto& [id, refs] : found->second) {
        if (pool->owners(id) != refs.owners)
          return Broken("owners of a block", pool->owners(id), refs.owners);
        idle += refs.owners == 0 ? 1 : 0;
        ++live;
      }
    }
    if (pool->live_blocks() != live) return Broken("blocks in use", pool->live_blocks(), live);
    if (pool->idle_blocks() != idle) return Broken("idle blocks", pool->idle_blocks(), idle);
  }
  return OkStatus();
}

}  // namespace

Status CachePool::CheckInvariants() const {
  const State& state = *state_;
  CountedBlocks counted;
  std::map<NodeId, int64_t> users;
  int64_t tables = 0, open = 0;
  for (const State::Sequence& s : state.slots) {
    if (s.id == SequenceId::kNone) continue;
    ++open;
    tables += s.cache->bytes().metadata_bytes;
    for (const NodeId node : s.nodes) ++users[node];
    for (int u = 0; u < s.cache->units(); ++u) {
      const SharedBlocks* blocks = s.cache->unit(u).shared_blocks();
      if (blocks == nullptr) continue;
      for (int64_t b = 0; b < blocks->count(); ++b) ++counted[&blocks->pool()][blocks->id(b)].owners;
    }
  }
  if (open != state.open) return Broken("open sequences", state.open, open);
  if (state.prefixes != nullptr) {
    state.prefixes->ForEachBlock(
        [&](int u, BlockId id) { ++counted[&state.shape->unit(u).shared_blocks()->pool()][id].kept; });
    for (const auto& [node, count] : users) {
      const int64_t is = state.prefixes->index().users(node);
      if (is != count) return Broken("users of a node", is, count);
    }
  }
  const CacheMemory::Totals totals = state.memory->totals();
  if (state.options.cache.storage == StorageId::kPaged) {
    HF_RETURN_IF_ERROR(CompareBlocks(counted, *state.memory));
    if (state.memory->allocated_bytes() != totals.bytes + tables) {
      return Broken("allocated bytes", state.memory->allocated_bytes(), totals.bytes + tables);
    }
  }
  const BlockCounts counts = blocks();
  if (counts.free < 0 || counts.free + counts.live + counts.idle != counts.total) {
    return Broken("free + live + idle blocks", counts.free + counts.live + counts.idle, counts.total);
  }
  if (state.options.budget_bytes != 0 && state.UsageBytes() > state.options.budget_bytes) {
    return Broken("bytes in use", state.UsageBytes(), state.options.budget_bytes);
  }
  return state.in_step ? OkStatus() : state.CheckCommitted("invariant");
}

}  // namespace holdfast
