// What begins alike: blocks that sequences take over from each other.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "pool/cache_pool_state.h"

namespace holdfast {
namespace {

// Other trees that are looked at to say why a prefix was not found, of one's own namespace and of others.
constexpr int kTreesAskedWhy = 64;

}  // namespace

// The nodes are used from here on, so that no eviction on the way takes them.
Status CachePool::State::Adopt(Sequence& s, const PrefixIndex::Match& match, int64_t length, int64_t now) {
  const int64_t rows = options.cache.block_tokens;
  const int64_t blocks = CeilDiv(length, rows);
  const std::span<const NodeId> used(match.nodes.data(), static_cast<size_t>(blocks));
  for (const NodeId node : used) prefixes->index().AddUser(node);
  s.nodes.assign(used.begin(), used.end());
  // What window layers take over of them: the last ones, and the sinks'.
  int64_t begin = blocks, pinned_end = 0;
  for (int u = 0; u < shape->units(); ++u) {
    if (shape->unit(u).config().layout.id == LayoutId::kFull) continue;
    const SpanCache::BlockNeed need = shape->unit(u).NeededBlocks(length);
    begin = std::min(begin, need.begin);
    pinned_end = std::max(pinned_end, need.pinned);
  }
  prefixes->Use(used, blocks - begin, now);
  // Blocks of a ring that nobody needs, and the tables. The windows' blocks that it is about to take over must not be
  // what is given up for these; others may.
  int64_t bytes = 0;
  for (int u = 0; u < shape->units(); ++u) bytes += shape->unit(u).AdoptBytes(length);
  const auto sinks = used.first(static_cast<size_t>(std::min(pinned_end, begin)));
  const auto windows = used.subspan(static_cast<size_t>(begin));
  prefixes->HoldWindows(sinks, true);
  prefixes->HoldWindows(windows, true);
  const bool room = EvictFor(bytes, now);
  prefixes->HoldWindows(windows, false);
  prefixes->HoldWindows(sinks, false);
  if (!room) {
    return ResourceExhausted("admit: no room for the tables of " + std::to_string(length) + " shared tokens");
  }
  HF_RETURN_IF_ERROR(s.cache->Adopt(
      length, [&](int unit, int64_t n) { return prefixes->block(used[static_cast<size_t>(n)], unit); }));
  if (length % rows != 0) {  // its rows go on otherwise
    prefixes->index().RemoveUser(s.nodes.back());
    s.nodes.pop_back();
  }
  return OkStatus();
}

int64_t CachePool::Reusable(const OpenRequest& request) const {
  if (state_->prefixes == nullptr) return 0;
  const BlockKey root = RootKey(request.identity, state_->cache_digest);
  const PrefixIndex::Match match = state_->prefixes->index().Find(root, request.tokens);
  return state_->prefixes->Usable(match, static_cast<int64_t>(request.tokens.size()) - 1, *state_->shape);
}

Receipt CachePool::State::Explain(const OpenRequest& request, const BlockKey& root,
                                  const PrefixIndex::Match& match, int64_t usable) const {
  const auto count = static_cast<int64_t>(request.tokens.size());
  Receipt receipt{.prompt_tokens = count, .reused_tokens = usable, .position = usable};
  const std::string at = " at token " + std::to_string(match.tokens);
  if (usable == count - 1) return receipt;
  if (usable < std::min(match.tokens, count - 1)) {
    receipt.miss = MissCause::kWindowGone;
    receipt.message =
        "the prefix matches up to token " + std::to_string(match.tokens) +
        ", but the rows that a window layer sees there are gone; it sees all it needs at token " +
        std::to_string(usable);
    return receipt;
  }
  receipt.position = match.tokens;
  const Elsewhere elsewhere = FoundElsewhere(request, root, match.tokens);
  receipt.in_other_namespace = elsewhere.other_namespace;
  if (elsewhere.other_config) {
    receipt.miss = MissCause::kOtherConfig;
    receipt.message = "what follows" + at + " is stored for another model, adapter or cache";
  } else if (match.end == PrefixIndex::End::kEvicted) {
    receipt.miss = MissCause::kEvicted;
    receipt.message = "what follows" + at + " was stored and has been evicted";
  } else if (match.end == PrefixIndex::End::kDiffers) {
    receipt.miss = MissCause::kTokenDiffers;
    receipt.message = "what is stored goes on with another token" + at;
  } else {
    receipt.miss = MissCause::kNew;
    receipt.message = "nothing is stored that goes on" + at;
  }
  return receipt;
}

// Which trees of other identities have a longer prefix. Those of the request's own namespace are counted apart: how many
// others there are must not decide whether one of its own is asked.
CachePool::State::Elsewhere CachePool::State::FoundElsewhere(const OpenRequest& request, const BlockKey& root,
                                                             int64_t matched) const {
  Elsewhere found;
  int own_asked = 0, others_asked = 0;
  for (const auto& [key, tree] : trees) {
    if (key == root) continue;
    const bool own = tree.name_space == request.identity.name_space;
    bool& has_more = own ? found.other_config : found.other_namespace;
    if (has_more || ++(own ? own_asked : others_asked) > kTreesAskedWhy) continue;
    has_more = prefixes->index().Find(key, request.tokens).tokens > matched;
  }
  return found;
}

Status CachePool::Publish(SequenceHandle handle, std::span<const int32_t> tokens, bool with_tail,
                          int64_t now) {
  State& state = *state_;
  HF_ASSIGN_OR_RETURN(State::Sequence * s, state.Find("publish", handle));
  if (state.prefixes == nullptr) return OkStatus();
  const int64_t rows = state.options.cache.block_tokens;
  const int64_t length = s->cache->length();
  if (static_cast<int64_t>(tokens.size()) < length) {
    return InvalidArgument("publish: " + std::to_string(tokens.size()) + " tokens, the sequence holds " +
                           std::to_string(length));
  }
  PrefixStore& prefixes = *state.prefixes;
  const auto keep = [&](int64_t n, int64_t count) {
    const NodeId parent = n == 0 ? NodeId::kNone : s->nodes[static_cast<size_t>(n - 1)];
    return prefixes.Keep(s->root, parent,
                         tokens.subspan(static_cast<size_t>(n * rows), static_cast<size_t>(count)), *s->cache,
                         n, now);
  };
  for (auto n = static_cast<int64_t>(s->nodes.size()); n < length / rows; ++n) {
    if (!state.EvictFor(prefixes.NodeBytes(), now)) return OkStatus();  // sharing gives way to what runs
    const NodeId node = keep(n, rows);
    prefixes.ShareKept(node, *s->cache, n);
    prefixes.index().AddUser(node);
    s->nodes.push_back(node);
  }
  const int64_t tail = length % rows;
  if (!with_tail || tail == 0) return OkStatus();
  const auto held = tokens.first(static_cast<size_t>(length));
  // A longer block may begin like it, and have all that a sequence needs here.
  if (prefixes.Usable(prefixes.index().Find(s->root, held), length, *s->cache) == length) return OkStatus();
  if (state.EvictFor(prefixes.NodeBytes(), now)) keep(length / rows, tail);
  return OkStatus();
}

// Trees that have nothing left are forgotten on the way.
void CachePool::State::RememberTree(const BlockKey& root, const PrefixIdentity& identity) {
  if (!trees.try_emplace(root, identity).second) return;
  std::erase_if(
      trees, [&](const auto& tree) { return tree.first != root && !prefixes->index().has_root(tree.first); });
}

// The stored whole blocks of a prefix.
std::vector<NodeId> CachePool::State::Chain(const PrefixIdentity& identity,
                                            std::span<const int32_t> tokens) const {
  if (prefixes == nullptr) return {};
  PrefixIndex::Match match = prefixes->index().Find(RootKey(identity, cache_digest), tokens);
  match.nodes.resize(static_cast<size_t>(match.tokens / options.cache.block_tokens));
  return match.nodes;
}

Result<int64_t> CachePool::Pin(const PrefixIdentity& identity, std::span<const int32_t> tokens) {
  State& state = *state_;
  const std::vector<NodeId> nodes = state.Chain(identity, tokens);
  if (nodes.empty())
    return NotFound("pin: nothing is stored of these " + std::to_string(tokens.size()) + " tokens");
  State::PinnedChain& chain = state.pinned[nodes.back()];
  if (chain.times == 0) {
    chain.nodes = nodes;
    chain.bytes =
        static_cast<int64_t>(nodes.size()) * (state.prefixes->BlockBytes() + state.prefixes->NodeBytes());
    state.pinned_bytes += chain.bytes;
    const Status room = state.CheckCommitted("pin");
    if (!room.ok()) {
      state.pinned_bytes -= chain.bytes;
      state.pinned.erase(nodes.back());
      return room;
    }
    state.prefixes->index().Pin(nodes.back(), true);
    state.prefixes->HoldWindows(nodes, true);
  }
  ++chain.times;
  return static_cast<int64_t>(nodes.size()) * state.options.cache.block_tokens;
}

Status CachePool::Unpin(const PrefixIdentity& identity, std::span<const int32_t> tokens) {
  State& state = *state_;
  const std::vector<NodeId> nodes = state.Chain(identity, tokens);
  const auto found = nodes.empty() ? state.pinned.end() : state.pinned.find(nodes.back());
  if (found == state.pinned.end()) {
    return NotFound("unpin: these " + std::to_string(tokens.size()) + " tokens are not pinned");
  }
  if (--found->second.times > 0) return OkStatus();
  state.pinned_bytes -= found->second.bytes;
  state.prefixes->index().Pin(nodes.back(), false);
  state.prefixes->HoldWindows(found->second.nodes, false);
  state.pinned.erase(found);
  return OkStatus();
}

void CachePool::DropExpired(int64_t now) {
  if (state_->prefixes != nullptr) state_->prefixes->DropExpired(now);
}

void CachePool::DropIdle() {
  if (state_->prefixes == nullptr) return;
  while (state_->prefixes->EvictOne(0)) {
  }
}

}  // namespace holdfast
