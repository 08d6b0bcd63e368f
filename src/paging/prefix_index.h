// Which sequences of tokens have stored rows, block by block. Knows ids, tokens and counts; nothing of bytes, layers or
// time's unit.
//
// A node is a block of tokens after the block that is its parent. Its key is the hash of its parent's key and its
// tokens, chained down from a root that stands for everything else that rows depend on (model, codecs, tenant ...).
// Children are kept in the order of their tokens and found by comparing these, so no collision of keys makes a match,
// and the longest common prefix is at one of two neighbours. Keys name blocks to what outlives their nodes: the memory
// of evictions here, stores elsewhere. Every node holds block_tokens tokens, but for the last one of a sequence, which
// may hold fewer and then has no children.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/sha256.h"

namespace holdfast {

using BlockKey = Sha256;  // of base/sha256.h: std::array<std::byte, 32>

// The key of `tokens` after a block of key `parent`: SHA-256 over typed, length-prefixed fields (docs/formats).
BlockKey ChainBlockKey(const BlockKey& parent, std::span<const int32_t> tokens);

// Small numbers from 0 on: a removed node's is given to a later one.
enum class NodeId : int64_t { kNone = -1 };

// Not thread-safe.
class PrefixIndex {
 public:
  using KeyFunction = BlockKey (*)(const BlockKey& parent, std::span<const int32_t> tokens);
  struct Options {
    int block_tokens = 32;
    KeyFunction key = ChainBlockKey;       // another one in tests: a hash that collides must change no answer
    int64_t remembered_evictions = 65536;  // keys kept to tell "evicted" from "new", two an eviction
  };
  explicit PrefixIndex(const Options& options);  // REQUIRES block_tokens >= 1
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  enum class End : uint8_t {
    kAll,      // every token matched
    kAbsent,   // nothing is stored after `nodes`
    kDiffers,  // something is, with another token at `tokens`
    kEvicted,  // what followed has been removed since; guessed from keys, so it rules no answer but this one
  };
  struct Match {
    std::vector<NodeId> nodes;  // from the root on; of the last one perhaps not all tokens match
    int64_t tokens = 0;         // longest common prefix, to the token
    End end = End::kAbsent;
  };
  // Changes nothing, ages included. O(log n) comparisons and no hash a block, one hash at the end.
  Match Find(const BlockKey& root, std::span<const int32_t> tokens) const;

  struct Added {
    NodeId id = NodeId::kNone;
    bool fresh = false;  // false: it was there already
    // The longest one of the shorter nodes that the new one begins with and that may be removed (no users, no pin), or
    // kNone: whoever wants to save room does so.
    NodeId superseded = NodeId::kNone;
  };
  // The node of `tokens` (1 to block_tokens of them) after `parent` (kNone: after the root). A new one starts with no
  // users and age `now`. REQUIRES a full parent.
  Added Add(const BlockKey& root, NodeId parent, std::span<const int32_t> tokens, int64_t now);

  // Sequences that run on the node's rows; such a node is no candidate for eviction. A sequence uses every node from
  // the root to its last one.
  void AddUser(NodeId id);
  void RemoveUser(NodeId id);
  void Touch(NodeId id, int64_t now);           // ages: larger is younger
  void Pin(NodeId id, bool pinned);             // a pinned node stays, and so do those above it
  void SetExpiry(NodeId id, int64_t deadline);  // 0: none. From then on it is a candidate before all others

  // The node that goes first: without children, users or pin; expired ones (the first deadline first), then the
  // oldest (of equal age the one furthest from the root). kNone: there is none.
  NodeId Candidate(int64_t now) const;
  // The expired candidate, or kNone.
  NodeId Expired(int64_t now) const;
  // Forgets a node without children or users, and remembers that it was there.
  void Remove(NodeId id);

  const BlockKey& key(NodeId id) const;
  std::span<const int32_t> tokens(NodeId id) const;
  NodeId parent(NodeId id) const;
  int64_t depth_tokens(NodeId id) const;  // tokens before the node
  int32_t users(NodeId id) const;
  int64_t age(NodeId id) const;
  bool has_root(const BlockKey& root) const;  // whether any node is stored under it
  int64_t nodes() const;
  // Of everything above: a formula over counts, so that a budget can plan it. Never less than what the allocator gave
  // for it; a removed node leaves kSlotBytes. At most what an empty index has + nodes() * NodeBytes(block_tokens()) +
  // nodes removed * kSlotBytes + keys remembered * kRememberedBytes.
  int64_t bytes() const;
  static int64_t NodeBytes(int block_tokens);
  static constexpr int64_t kRememberedBytes = 64;
  static constexpr int64_t kSlotBytes = 32;
  int block_tokens() const { return options_.block_tokens; }

 private:
  struct Node;
  struct Root;
  struct TokenOrder {
    using is_transparent = void;
    bool operator()(const Node* a, const Node* b) const;
    bool operator()(const Node* a, std::span<const int32_t> b) const;
    bool operator()(std::span<const int32_t> a, const Node* b) const;
  };
  struct AgeOrder {
    bool operator()(const Node* a, const Node* b) const;
  };
  struct ExpiryOrder {
    bool operator()(const Node* a, const Node* b) const;
  };
  using Siblings = std::set<Node*, TokenOrder>;

  struct Closest {
    const Node* node = nullptr;
    int64_t common = 0;
  };
  static Closest FindClosest(const Siblings& siblings, std::span<const int32_t> tokens);
  static NodeId FindSuperseded(const Siblings& siblings, std::span<const int32_t> tokens);
  Node& At(NodeId id) const;
  NodeId NewId();
  // Around every change of what decides about eviction and its order.
  void Withdraw(Node& node);
  void Offer(Node& node);

  void Remember(const BlockKey& key);
  void Forget(const BlockKey& key);
  bool Remembers(const BlockKey& key) const;

  Options options_;
  std::unordered_map<BlockKey, Root, Sha256Hash> roots_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by id; null: removed
  std::vector<NodeId> free_ids_;
  std::set<Node*, AgeOrder> by_age_;        // candidates
  std::set<Node*, ExpiryOrder> by_expiry_;  // those of them that expire
  // The first 8 bytes of a key, and the number of the eviction that remembered it last.
  std::unordered_map<uint64_t, int64_t> remembered_;
  std::deque<std::pair<uint64_t, int64_t>> remembered_order_;
  int64_t evictions_ = 0;
};

}  // namespace holdfast
