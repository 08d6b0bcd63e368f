// The rows behind a prefix index: which blocks each node keeps, and which are given up first.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cache/sequence_cache.h"
#include "paging/prefix_index.h"

namespace holdfast {

// Keeps the blocks of published sequences. Two things age apart: a node, used whenever a sequence begins with it, and
// the blocks of its window layers, used only where a sequence begins near enough to its end to see them. Not
// thread-safe.
class PrefixStore {
 public:
  // pools [units]: whose blocks a unit's are. ring [units]: whether it is a window's and gives its rows up. ttl: how long
  // a node stays after its last use; 0: until there is want of room.
  PrefixStore(const PrefixIndex::Options& options, std::vector<BlockPool*> pools, std::vector<bool> ring,
              int64_t ttl);
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  const PrefixIndex& index() const { return index_; }
  PrefixIndex& index() { return index_; }

  // The most tokens <= limit of the match that a sequence can begin with: every block that it needs then is kept.
  // need(unit, length) as SpanCache::NeededBlocks.
  int64_t Usable(const PrefixIndex::Match& match, int64_t limit, const SequenceCache& shape) const;
  BlockId block(NodeId node, int unit) const;

  // Where two have computed the same full block the second takes over what full layers keep of it, and gives up its own:
  // so that a node that is used keeps no block of a full layer that nobody owns. Block n of `sequence`.
  void ShareKept(NodeId node, SequenceCache& sequence, int64_t n) const;
  // Keeps `sequence`'s block n as the node of these tokens after `parent`. kNone where the node is not there yet and
  // !may_add. The node has no user of its own by it.
  NodeId Keep(const BlockKey& root, NodeId parent, std::span<const int32_t> tokens,
              const SequenceCache& sequence, int64_t n, int64_t now);
  // A sequence has begun with these nodes, whose last `windowed` ones it needed the window layers' blocks of.
  void Use(std::span<const NodeId> nodes, int64_t windowed, int64_t now);

  // The window layers' blocks of these nodes stay as long as the nodes, or no longer.
  void HoldWindows(std::span<const NodeId> nodes, bool held);

  // Gives up one thing that no sequence needs, the one whose use was longest ago; false: there is none.
  bool EvictOne(int64_t now);
  // Gives up every node whose time has come.
  void DropExpired(int64_t now);
  int64_t evictions() const { return evictions_; }
  int64_t bytes() const;  // of the index and the lists of blocks: a formula over the nodes
  // Most bytes that one more node takes.
  int64_t NodeBytes() const;

  // Most bytes that a node's blocks take.
  int64_t BlockBytes() const;

  // Calls f(unit, block) for every block that is kept.
  template <typename F>
  void ForEachBlock(F f) const {
    for (const Entry& entry : entries_)
      for (size_t u = 0; u < entry.blocks.size(); ++u)
        if (entry.blocks[u] != BlockId::kNone) f(static_cast<int>(u), entry.blocks[u]);
  }

 private:
  struct Entry {
    std::vector<BlockId> blocks;  // [units]; empty: no such node
    int64_t window_age = 0;
    bool has_window = false;
    int32_t held = 0;  // its windows stay
  };
  Entry& EntryOf(NodeId id);
  void Fill(Entry& entry, NodeId id, const SequenceCache& sequence, int64_t n, int64_t now);
  void Touch(NodeId id, int64_t now);
  void SetWindowAge(Entry& entry, NodeId id, int64_t now);
  void DropWindow(NodeId id);
  void Remove(NodeId id);

  PrefixIndex index_;
  std::vector<BlockPool*> pools_;
  std::vector<bool> ring_;
  int64_t ttl_;
  std::vector<Entry> entries_;                    // by node
  std::set<std::pair<int64_t, NodeId>> windows_;  // nodes that keep window blocks and may give them up
  int64_t evictions_ = 0;
};

}  // namespace holdfast
