#include "pool/cache_pool.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"
#include "pool/cache_pool_state.h"

namespace holdfast {
namespace {

// Evicted keys are remembered within a part of the budget that nobody would miss.
constexpr int64_t kRememberedShare = 512;
constexpr int64_t kMostRemembered = 65536;

}  // namespace

using SharedWith = SpanCache::SharedWith;

Status CachePool::State::Init() {
  if (options.max_sequences < 1) {
    return InvalidArgument("pool: max_sequences is " + std::to_string(options.max_sequences) +
                           ", must be at least 1");
  }
  for (const auto& [what, value] :
       {std::pair("budget_bytes", options.budget_bytes), std::pair("budget_tokens", options.budget_tokens),
        std::pair("scratch_bytes", options.scratch_bytes), std::pair("prefix_ttl", options.prefix_ttl)}) {
    if (value < 0)
      return InvalidArgument(std::string("pool: ") + what + " is " + std::to_string(value) +
                             ", must be >= 0");
  }
  if (options.share_prefixes && options.cache.storage != StorageId::kPaged) {
    return InvalidArgument("pool: prefixes are shared by blocks, storage is " +
                           std::string(StorageName(options.cache.storage)) + ", must be paged");
  }
  const int64_t rows_budget = options.budget_bytes == 0 ? 0 : options.budget_bytes - options.scratch_bytes;
  if (options.budget_bytes != 0 && rows_budget <= 0) {
    return ResourceExhausted("pool: the budget of " + BytesText(options.budget_bytes) +
                             " does not hold the scratch of " + BytesText(options.scratch_bytes));
  }
  cache_digest = CacheDigest(options.cache);
  memory = std::make_shared<CacheMemory>(rows_budget);
  HF_ASSIGN_OR_RETURN(shape, SequenceCache::Create(options.cache, memory));
  slots.resize(static_cast<size_t>(options.max_sequences));
  if (options.cache.storage == StorageId::kPaged) {
    std::vector<BlockPool*> pools;
    std::vector<bool> ring;
    int64_t bytes = 0;
    for (int u = 0; u < shape->units(); ++u) {
      pools.push_back(&shape->unit(u).shared_blocks()->pool());
      ring.push_back(shape->unit(u).config().layout.id != LayoutId::kFull);
      bytes += ArenaBlockBytes(pools.back()->block_bytes());
    }
    if (options.budget_bytes != 0) block_total = rows_budget / (bytes / shape->units());
    if (options.share_prefixes) {
      PrefixIndex::Options index{.block_tokens = options.cache.block_tokens, .key = options.key};
      if (options.budget_bytes != 0) {
        index.remembered_evictions = std::min(
            kMostRemembered, options.budget_bytes / kRememberedShare / PrefixIndex::kRememberedBytes);
      }
      prefixes = std::make_unique<PrefixStore>(index, std::move(pools), std::move(ring), options.prefix_ttl);
      index_base_bytes = prefixes->bytes() + index.remembered_evictions * PrefixIndex::kRememberedBytes;
    }
  }
  if (options.budget_bytes == 0) return OkStatus();
  const int64_t least = shape->MostGrowthBytes(1, SharedWith::kAnyone) + IndexBytesFor(1) + index_base_bytes;
  if (least > rows_budget) {
    return ResourceExhausted("pool: the budget of " + BytesText(options.budget_bytes) +
                             " less the scratch of " + BytesText(options.scratch_bytes) +
                             " does not hold one block a layer, " + BytesText(least));
  }
  return OkStatus();
}

CachePool::CachePool(std::unique_ptr<State> state) : state_(std::move(state)) {}
CachePool::~CachePool() = default;

Result<std::unique_ptr<CachePool>> CachePool::Create(const PoolOptions& options) {
  auto state = std::make_unique<State>(options);
  HF_RETURN_IF_ERROR(state->Init());
  return std::unique_ptr<CachePool>(new CachePool(std::move(state)));
}

Result<CachePool::State::Sequence*> CachePool::State::Find(const char* operation, SequenceHandle handle) {
  const bool inside = handle.slot >= 0 && static_cast<size_t>(handle.slot) < slots.size();
  if (inside && handle.id != SequenceId::kNone) {
    Sequence& s = slots[static_cast<size_t>(handle.slot)];
    if (s.id == handle.id && !s.closing) return &s;
  }
  return NotFound(std::string(operation) + ": sequence " + std::to_string(static_cast<int64_t>(handle.id)) +
                  " is not open");
}

Status CachePool::State::CheckSlot(const char* operation) const {
  if (open < static_cast<int64_t>(slots.size())) return OkStatus();
  return ResourceExhausted(std::string(operation) + ": " + std::to_string(open) +
                           " sequences are open, the limit is " + std::to_string(slots.size()));
}

CachePool::State::Sequence& CachePool::State::Take(std::unique_ptr<SequenceCache> cache, const BlockKey& root,
                                                   int64_t reserve) {
  Sequence& s = *std::find_if(slots.begin(), slots.end(),
                              [](const Sequence& one) { return one.id == SequenceId::kNone; });
  s.id = static_cast<SequenceId>(++last_id);
  s.cache = std::move(cache);
  s.root = root;
  s.reserved = reserve;
  ++open;
  return s;
}

void CachePool::State::BeginAnew(Sequence& s) {
  for (const NodeId node : s.nodes) prefixes->index().RemoveUser(node);
  s.nodes.clear();
  s.cache->Clear();
}

void CachePool::State::Release(Sequence& s) {
  BeginAnew(s);
  s = Sequence{};
  --open;
}

Result<Opened> CachePool::Open(const OpenRequest& request, int64_t now) {
  State& state = *state_;
  const auto count = static_cast<int64_t>(request.tokens.size());
  if (count < 1) return InvalidArgument("admit: 0 tokens, must be at least 1");
  const int64_t reserve = std::max(request.reserve_tokens, count);
  HF_RETURN_IF_ERROR(CheckEverFits(reserve));
  HF_RETURN_IF_ERROR(state.CheckSlot("admit"));
  const BlockKey root = RootKey(request.identity, state.cache_digest);
  HF_ASSIGN_OR_RETURN(auto cache, SequenceCache::Create(state.options.cache, state.memory));
  State::Sequence& s = state.Take(std::move(cache), root, reserve);
  Receipt receipt{.prompt_tokens = count, .miss = MissCause::kDisabled};
  Status room = OkStatus();
  if (state.prefixes != nullptr && !request.reuses) {
    receipt.message = "every token of the prompt is to be evaluated";
    state.RememberTree(root, request.identity);
  } else if (state.prefixes != nullptr) {
    const PrefixIndex::Match match = state.prefixes->index().Find(root, request.tokens);
    const int64_t usable = state.prefixes->Usable(match, count - 1, *state.shape);
    receipt = state.Explain(request, root, match, usable);
    state.RememberTree(root, request.identity);
    if (usable > 0) room = state.Adopt(s, match, usable, now);
  }
  if (room.ok()) room = state.CheckCommitted("admit");
  // Alone it always has room, if not beside what it would share: then that gives way.
  if (!room.ok() && state.open == 1 && receipt.reused_tokens > 0) {
    state.BeginAnew(s);
    receipt.reused_tokens = receipt.position = 0;
    receipt.miss = MissCause::kEvicted;
    receipt.message = "what is stored leaves no room for the rest of the request";
    room = state.CheckCommitted("admit");
  }
  if (!room.ok()) {
    state.Release(s);
    return room;
  }
  return Opened{state.HandleOf(s), receipt};
}

Result<SequenceHandle> CachePool::Fork(SequenceHandle handle, int64_t reserve_tokens, int64_t now) {
  State& state = *state_;
  HF_ASSIGN_OR_RETURN(State::Sequence * from, state.Find("fork", handle));
  HF_RETURN_IF_ERROR(state.CheckSlot("fork"));
  const int64_t reserve = std::max(reserve_tokens, from->cache->length());
  HF_RETURN_IF_ERROR(CheckEverFits(reserve));
  if (!state.EvictFor(from->cache->bytes().total_bytes(), now)) {
    return ResourceExhausted("fork: no room for a copy of " + BytesText(from->cache->bytes().total_bytes()));
  }
  HF_ASSIGN_OR_RETURN(auto cache, from->cache->Fork());
  State::Sequence& s = state.Take(std::move(cache), from->root, reserve);
  s.nodes = from->nodes;
  for (const NodeId node : s.nodes) state.prefixes->index().AddUser(node);
  const Status room = state.CheckCommitted("fork");
  if (!room.ok()) {
    state.Release(s);
    return room;
  }
  return state.HandleOf(s);
}

Result<SequenceCache*> CachePool::cache(SequenceHandle handle) {
  HF_ASSIGN_OR_RETURN(State::Sequence * s, state_->Find("sequence", handle));
  return s->cache.get();
}

Status CachePool::Grow(SequenceHandle handle, int64_t tokens) {
  HF_ASSIGN_OR_RETURN(State::Sequence * s, state_->Find("grow", handle));
  if (tokens <= s->reserved) return OkStatus();
  HF_RETURN_IF_ERROR(CheckEverFits(tokens));
  const int64_t before = std::exchange(s->reserved, tokens);
  const Status room = state_->CheckCommitted("grow");
  if (!room.ok()) s->reserved = before;
  return room;
}

Status CachePool::BeginStep(std::span<const StepSlice> slices, int64_t now) {
  State& state = *state_;
  assert(!state.in_step);
  for (const StepSlice& slice : slices) {
    HF_ASSIGN_OR_RETURN(const State::Sequence* s, state.Find("step", slice.handle));
    const int64_t length = s->cache->length() + slice.tokens;
    if (length > s->reserved) {
      return FailedPrecondition("step: sequence " + std::to_string(static_cast<int64_t>(s->id)) +
                                " grows to " + std::to_string(length) + " tokens, reserved are " +
                                std::to_string(s->reserved));
    }
  }
  // Computed anew after each eviction: a block that the index gives up need not be copied before it is written.
  const auto growth = [&] {
    int64_t bytes = 0;
    for (const StepSlice& slice : slices) {
      const SequenceCache& cache = *state.slots[static_cast<size_t>(slice.handle.slot)].cache;
      bytes += cache.MostGrowthBytes(cache.length() + slice.tokens, SharedWith::kAnyone);
    }
    return bytes;
  };
  while (state.options.budget_bytes != 0 && state.UsageBytes() + growth() > state.options.budget_bytes) {
    if (state.prefixes != nullptr && state.prefixes->EvictOne(now)) continue;
    return ResourceExhausted("step: " + BytesText(growth()) + " more than the " +
                             BytesText(state.UsageBytes()) + " in use pass the budget of " +
                             std::to_string(state.options.budget_bytes));
  }
  state.in_step = true;
  return OkStatus();
}

void CachePool::EndStep() {
  state_->in_step = false;
  for (State::Sequence& s : state_->slots) {
    if (s.closing) state_->Release(s);
  }
}

Status CachePool::Close(SequenceHandle handle) {
  HF_ASSIGN_OR_RETURN(State::Sequence * s, state_->Find("close", handle));
  if (state_->in_step) {
    s->closing = true;
  } else {
    state_->Release(*s);
  }
  return OkStatus();
}

int64_t CachePool::blocks_of(SequenceHandle handle) const {
  const auto s = state_->Find("blocks", handle);
  if (!s.ok()) return 0;
  int64_t count = 0;
  for (int u = 0; u < (*s)->cache->units(); ++u) {
    const SharedBlocks* blocks = (*s)->cache->unit(u).shared_blocks();
    if (blocks != nullptr) count += blocks->count();
  }
  return count;
}

int64_t CachePool::open_sequences() const {
  return state_->open;
}

int64_t CachePool::evictions() const {
  return state_->prefixes == nullptr ? 0 : state_->prefixes->evictions();
}

const CacheConfig& CachePool::config() const {
  return state_->options.cache;
}

bool CachePool::shares_prefixes() const {
  return state_->prefixes != nullptr;
}

}  // namespace holdfast
