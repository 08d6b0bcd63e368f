#include "pool/prefix_store.h"

#include <algorithm>
#include <cassert>

namespace holdfast {
namespace {

size_t Index(NodeId id) {
  return static_cast<size_t>(static_cast<int64_t>(id));
}

// What a node costs beside the index: its list of blocks, and its place in the order of windows.
int64_t EntryBytes(size_t units) {
  constexpr int64_t kOrderNode = 64;  // of a red-black tree
  return kOrderNode + static_cast<int64_t>(units * sizeof(BlockId)) + 48;
}

}  // namespace

PrefixStore::PrefixStore(const PrefixIndex::Options& options, std::vector<BlockPool*> pools,
                         std::vector<bool> ring, int64_t ttl)
    : index_(options), pools_(std::move(pools)), ring_(std::move(ring)), ttl_(ttl) {}

PrefixStore::~PrefixStore() {
  ForEachBlock([this](int unit, BlockId id) { pools_[static_cast<size_t>(unit)]->Unkeep(id); });
}

PrefixStore::Entry& PrefixStore::EntryOf(NodeId id) {
  if (Index(id) >= entries_.size()) entries_.resize(Index(id) + 1);
  return entries_[Index(id)];
}

BlockId PrefixStore::block(NodeId node, int unit) const {
  return entries_[Index(node)].blocks[static_cast<size_t>(unit)];
}

int64_t PrefixStore::Usable(const PrefixIndex::Match& match, int64_t limit,
                            const SequenceCache& shape) const {
  const int64_t rows = index_.block_tokens();
  int64_t length = std::min(match.tokens, limit);
  // A missing block can only be avoided by ending before its first row, or by moving on so far that it is not seen: the
  // longest length is wanted, so every unit is asked again until none is missing.
  for (bool changed = true; changed && length > 0;) {
    changed = false;
    for (int u = 0; u < shape.units() && length > 0; ++u) {
      if (!ring_[static_cast<size_t>(u)]) continue;  // has every block of every node
      const SpanCache::BlockNeed need = shape.unit(u).NeededBlocks(length);
      const auto missing = [&](int64_t n) {
        return block(match.nodes[static_cast<size_t>(n)], u) == BlockId::kNone;
      };
      int64_t last = need.end - 1;
      while (last >= need.begin && !missing(last)) --last;
      if (last < need.begin) {
        last = std::min(need.pinned, need.begin) - 1;
        while (last >= 0 && !missing(last)) --last;
      }
      if (last < 0) continue;
      length = last * rows;
      changed = true;
    }
  }
  return length;
}

NodeId PrefixStore::Keep(const BlockKey& root, NodeId parent, std::span<const int32_t> tokens,
                         const SequenceCache& sequence, int64_t n, int64_t now) {
  const PrefixIndex::Added added = index_.Add(root, parent, tokens, now);
  Entry& entry = EntryOf(added.id);
  if (added.fresh) entry.blocks.assign(pools_.size(), BlockId::kNone);
  Fill(entry, added.id, sequence, n, now);
  Touch(added.id, now);
  // A longer block without its windows' rows does not stand in for a shorter one that has them.
  const bool complete =
      std::find(entry.blocks.begin(), entry.blocks.end(), BlockId::kNone) == entry.blocks.end();
  if (complete && added.superseded != NodeId::kNone && index_.users(added.superseded) == 0) {
    Remove(added.superseded);
  }
  return added.id;
}

void PrefixStore::ShareKept(NodeId node, SequenceCache& sequence, int64_t n) const {
  for (int u = 0; u < sequence.units(); ++u) {
    if (ring_[static_cast<size_t>(u)]) continue;  // will be written again, by each
    const BlockId kept = block(node, u);
    const BlockId own = sequence.unit(u).block(n);
    if (kept != BlockId::kNone && own != BlockId::kNone && kept != own) sequence.unit(u).ShareBlock(n, kept);
  }
}

void PrefixStore::Touch(NodeId id, int64_t now) {
  index_.Touch(id, now);
  if (ttl_ > 0) index_.SetExpiry(id, now + ttl_);
}

// A window layer's block that was given up meanwhile is taken from whoever has computed it anew.
void PrefixStore::Fill(Entry& entry, NodeId id, const SequenceCache& sequence, int64_t n, int64_t now) {
  bool window = false;
  for (int u = 0; u < sequence.units(); ++u) {
    BlockId& kept = entry.blocks[static_cast<size_t>(u)];
    if (kept == BlockId::kNone) {
      kept = sequence.unit(u).block(n);
      if (kept != BlockId::kNone) pools_[static_cast<size_t>(u)]->Keep(kept);
    }
    window |= ring_[static_cast<size_t>(u)] && kept != BlockId::kNone;
  }
  if (window) SetWindowAge(entry, id, now);
}

void PrefixStore::SetWindowAge(Entry& entry, NodeId id, int64_t now) {
  if (entry.has_window) windows_.erase({entry.window_age, id});
  entry.has_window = true;
  entry.window_age = now;
  if (entry.held == 0) windows_.insert({now, id});
}

void PrefixStore::HoldWindows(std::span<const NodeId> nodes, bool held) {
  for (const NodeId id : nodes) {
    Entry& entry = EntryOf(id);
    entry.held += held ? 1 : -1;
    if (!entry.has_window) continue;
    if (entry.held > 0) {
      windows_.erase({entry.window_age, id});
    } else {
      windows_.insert({entry.window_age, id});
    }
  }
}

void PrefixStore::Use(std::span<const NodeId> nodes, int64_t windowed, int64_t now) {
  const auto count = static_cast<int64_t>(nodes.size());
  for (int64_t i = 0; i < count; ++i) {
    const NodeId id = nodes[static_cast<size_t>(i)];
    Touch(id, now);
    Entry& entry = EntryOf(id);
    if (entry.has_window && i >= count - windowed) SetWindowAge(entry, id, now);
  }
}

void PrefixStore::DropWindow(NodeId id) {
  Entry& entry = EntryOf(id);
  if (entry.has_window) windows_.erase({entry.window_age, id});
  entry.has_window = false;
  for (size_t u = 0; u < entry.blocks.size(); ++u) {
    if (!ring_[u] || entry.blocks[u] == BlockId::kNone) continue;
    pools_[u]->Unkeep(entry.blocks[u]);
    entry.blocks[u] = BlockId::kNone;
  }
}

void PrefixStore::Remove(NodeId id) {
  DropWindow(id);
  Entry& entry = EntryOf(id);
  for (size_t u = 0; u < entry.blocks.size(); ++u) {
    if (entry.blocks[u] != BlockId::kNone) pools_[u]->Unkeep(entry.blocks[u]);
  }
  entry = Entry{};
  index_.Remove(id);
}

bool PrefixStore::EvictOne(int64_t now) {
  const NodeId node = index_.Candidate(now);
  const bool window = !windows_.empty();
  if (node == NodeId::kNone && !window) return false;
  ++evictions_;
  const bool expired = node != NodeId::kNone && index_.Expired(now) == node;
  if (window && !expired && (node == NodeId::kNone || windows_.begin()->first <= index_.age(node))) {
    DropWindow(windows_.begin()->second);
  } else {
    Remove(node);
  }
  return true;
}

void PrefixStore::DropExpired(int64_t now) {
  for (NodeId id = index_.Expired(now); id != NodeId::kNone; id = index_.Expired(now)) {
    ++evictions_;
    Remove(id);
  }
}

int64_t PrefixStore::bytes() const {
  return index_.bytes() + index_.nodes() * EntryBytes(pools_.size());
}

int64_t PrefixStore::BlockBytes() const {
  int64_t sum = 0;
  for (const BlockPool* pool : pools_) sum += ArenaBlockBytes(pool->block_bytes());
  return sum;
}

int64_t PrefixStore::NodeBytes() const {
  return PrefixIndex::NodeBytes(index_.block_tokens()) + EntryBytes(pools_.size());
}

}  // namespace holdfast
