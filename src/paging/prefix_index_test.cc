#include "paging/prefix_index.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <numeric>
#include <vector>

namespace holdfast {
namespace {

using Tokens = std::vector<int32_t>;
using End = PrefixIndex::End;
constexpr NodeId kNone = NodeId::kNone;

BlockKey RootOf(int tenant) {
  return Sha256Builder("test root", 1).AddU64("tenant", static_cast<uint64_t>(tenant)).Finish();
}

BlockKey Collide(const BlockKey&, std::span<const int32_t>) {
  return {};
}

// Adds a whole sequence, block by block; its nodes from the root on.
std::vector<NodeId> Store(PrefixIndex& index, const BlockKey& root, const Tokens& tokens, int64_t now = 0) {
  std::vector<NodeId> nodes;
  const std::span<const int32_t> all(tokens);
  const auto block = static_cast<size_t>(index.block_tokens());
  for (size_t at = 0; at < all.size(); at += block) {
    const NodeId parent = nodes.empty() ? kNone : nodes.back();
    nodes.push_back(index.Add(root, parent, all.subspan(at, std::min(block, all.size() - at)), now).id);
  }
  return nodes;
}

Tokens Count(int32_t from, int32_t count) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

TEST(BlockKey, IsPinned) {
  BlockKey parent;
  for (size_t i = 0; i < parent.size(); ++i) parent[i] = static_cast<std::byte>(i);
  const Tokens tokens = {1, 2, -1};
  // Computed by the Python lines in docs/formats/block-identity.md.
  EXPECT_EQ(HexOf(ChainBlockKey(parent, tokens)),
            "aa8fbf6858d4bf098cf5d112d942f4e1b1eb6e9f0f7e47e7a6622c69e7318490");
}

TEST(BlockKey, DependsOnParentAndTokens) {
  const Tokens a = {1, 2}, b = {1, 3}, c = {1};
  EXPECT_NE(ChainBlockKey(RootOf(0), a), ChainBlockKey(RootOf(1), a));
  EXPECT_NE(ChainBlockKey(RootOf(0), a), ChainBlockKey(RootOf(0), b));
  EXPECT_NE(ChainBlockKey(RootOf(0), a), ChainBlockKey(RootOf(0), c));
}

TEST(PrefixIndex, FindsTheLongestPrefixToTheToken) {
  PrefixIndex index({.block_tokens = 4});
  const BlockKey root = RootOf(0);
  const std::vector<NodeId> nodes = Store(index, root, Count(0, 10));
  ASSERT_EQ(nodes.size(), 3u);
  for (int32_t n = 1; n <= 10; ++n) {
    const auto match = index.Find(root, Count(0, n));
    EXPECT_EQ(match.tokens, n);
    EXPECT_EQ(match.end, End::kAll);
    EXPECT_EQ(match.nodes, std::vector<NodeId>(nodes.begin(), nodes.begin() + (n + 3) / 4)) << n;
  }
  for (int32_t n = 0; n < 10; ++n) {
    Tokens other = Count(0, 14);
    other[static_cast<size_t>(n)] = 77;
    const auto match = index.Find(root, other);
    EXPECT_EQ(match.tokens, n);
    EXPECT_EQ(match.end, End::kDiffers) << n;
    EXPECT_EQ(match.nodes.size(), static_cast<size_t>((n + 3) / 4)) << n;
  }
  EXPECT_EQ(index.Find(root, Count(0, 11)).end, End::kAbsent);
  EXPECT_EQ(index.Find(root, Count(0, 11)).tokens, 10);
  EXPECT_EQ(index.Find(root, {}).end, End::kAll);
}

TEST(PrefixIndex, AnotherRootHasNothingInCommon) {
  PrefixIndex index({.block_tokens = 4});
  const std::vector<NodeId> nodes = Store(index, RootOf(0), Count(0, 8));
  const auto match = index.Find(RootOf(1), Count(0, 8));
  EXPECT_EQ(match.tokens, 0);
  EXPECT_EQ(match.end, End::kAbsent);
  EXPECT_TRUE(index.has_root(RootOf(0)));
  EXPECT_FALSE(index.has_root(RootOf(1)));
  index.Remove(nodes[1]);
  index.Remove(nodes[0]);
  EXPECT_FALSE(index.has_root(RootOf(0)));
}

// Case 16: openvino.genai#3722, a match by hash alone.
TEST(PrefixIndex, AHashThatAlwaysCollidesMakesNoMatch) {
  PrefixIndex index({.block_tokens = 1, .key = Collide});
  const BlockKey root = RootOf(0);
  const Tokens a = {65}, b = {321};
  index.Add(root, kNone, a, 0);
  EXPECT_EQ(index.Find(root, b).tokens, 0);
  EXPECT_EQ(index.Find(root, b).end, End::kDiffers);
  EXPECT_TRUE(index.Add(root, kNone, b, 0).fresh);
  EXPECT_TRUE(index.Add(RootOf(1), kNone, a, 0).fresh) << "nor across roots";
  EXPECT_EQ(index.Find(root, a).tokens, 1);
}

TEST(PrefixIndex, AddsABlockOnce) {
  PrefixIndex index({.block_tokens = 4});
  const BlockKey root = RootOf(0);
  const Tokens block = Count(0, 4);
  const auto first = index.Add(root, kNone, block, 1), again = index.Add(root, kNone, block, 2);
  EXPECT_TRUE(first.fresh);
  EXPECT_FALSE(again.fresh);
  EXPECT_EQ(first.id, again.id);
  EXPECT_EQ(index.nodes(), 1);
  EXPECT_EQ(index.age(first.id), 1);
  const auto child = index.Add(root, first.id, block, 3);
  EXPECT_TRUE(child.fresh) << "the same tokens at another place";
  EXPECT_EQ(index.parent(child.id), first.id);
  EXPECT_EQ(index.depth_tokens(child.id), 4);
  EXPECT_EQ(index.key(first.id), ChainBlockKey(root, block));
  EXPECT_EQ(index.key(child.id), ChainBlockKey(index.key(first.id), block));
}

TEST(PrefixIndex, NamesTheShorterTailThatALongerOneReplaces) {
  PrefixIndex index({.block_tokens = 8});
  const BlockKey root = RootOf(0);
  const auto add = [&](const Tokens& tokens) { return index.Add(root, kNone, tokens, 0); };
  const NodeId one = add({1}).id;
  EXPECT_EQ(add({2, 2}).superseded, kNone);
  const auto three = add({1, 5, 5});
  EXPECT_EQ(three.superseded, one);
  add({1, 5, 4, 9});  // between {1} and {1, 5, 5, 5} in the order
  EXPECT_EQ(add({1, 5, 5, 5}).superseded, three.id) << "the longest one";
  index.AddUser(three.id);
  EXPECT_EQ(add({1, 5, 5, 6}).superseded, one) << "a running sequence needs the other";
  index.Pin(one, true);
  EXPECT_EQ(add({1, 5, 5, 7}).superseded, kNone);
  index.RemoveUser(three.id);
  index.Remove(three.id);
  EXPECT_EQ(index.Find(root, Tokens{1, 5, 5}).end, End::kAll) << "the longer ones have its tokens";
}

TEST(PrefixIndex, GivesUpTheOldestLeafFirst) {
  PrefixIndex index({.block_tokens = 2});
  const BlockKey root = RootOf(0);
  const std::vector<NodeId> a = Store(index, root, {1, 1, 2, 2, 3, 3}, 10);
  const std::vector<NodeId> b = Store(index, root, {1, 1, 7, 7}, 20);
  ASSERT_EQ(a[0], b[0]);
  index.Touch(a[0], 20);
  std::vector<NodeId> gone;
  for (NodeId id = index.Candidate(100); id != kNone; id = index.Candidate(100)) {
    gone.push_back(id);
    index.Remove(id);
  }
  EXPECT_EQ(gone, (std::vector<NodeId>{a[2], a[1], b[1], a[0]}));
  EXPECT_EQ(index.nodes(), 0);
}

TEST(PrefixIndex, OfEqualAgeTheOneFurthestFromTheRootGoes) {
  PrefixIndex index({.block_tokens = 2});
  const std::vector<NodeId> flat = Store(index, RootOf(0), {9, 9}, 5);
  const std::vector<NodeId> deep = Store(index, RootOf(0), {1, 1, 2, 2}, 5);
  EXPECT_EQ(index.Candidate(5), deep[1]);
  index.Touch(deep[1], 6);
  EXPECT_EQ(index.Candidate(6), flat[0]);
}

TEST(PrefixIndex, KeepsWhatIsUsedOrPinned) {
  PrefixIndex index({.block_tokens = 2});
  const std::vector<NodeId> nodes = Store(index, RootOf(0), {1, 1, 2, 2});
  index.AddUser(nodes[1]);
  index.AddUser(nodes[1]);
  index.RemoveUser(nodes[1]);
  EXPECT_EQ(index.users(nodes[1]), 1);
  EXPECT_EQ(index.Candidate(0), kNone);
  index.Pin(nodes[1], true);
  index.RemoveUser(nodes[1]);
  EXPECT_EQ(index.Candidate(0), kNone) << "pinned, and what is above it has a child";
  index.Pin(nodes[1], false);
  EXPECT_EQ(index.Candidate(0), nodes[1]);
  index.Remove(nodes[1]);
  EXPECT_EQ(index.Candidate(0), nodes[0]);
}

TEST(PrefixIndex, WhatHasExpiredGoesBeforeAllOthers) {
  PrefixIndex index({.block_tokens = 2});
  const BlockKey root = RootOf(0);
  const NodeId old = Store(index, root, {1, 1}, 1)[0], young = Store(index, root, {2, 2}, 9)[0];
  const NodeId middle = Store(index, root, {3, 3}, 5)[0];
  index.SetExpiry(young, 100);
  index.SetExpiry(middle, 50);
  EXPECT_EQ(index.Expired(49), kNone);
  EXPECT_EQ(index.Candidate(49), old);
  EXPECT_EQ(index.Expired(50), middle);
  EXPECT_EQ(index.Candidate(200), middle) << "the first deadline first";
  index.AddUser(middle);
  EXPECT_EQ(index.Candidate(200), young) << "a sequence still runs on the other";
  index.SetExpiry(young, 0);
  EXPECT_EQ(index.Expired(200), kNone);
  EXPECT_EQ(index.Candidate(200), old);
}

TEST(PrefixIndex, TellsEvictedFromNew) {
  PrefixIndex index({.block_tokens = 4});
  const BlockKey root = RootOf(0);
  const std::vector<NodeId> nodes = Store(index, root, Count(0, 11));
  index.Remove(nodes[2]);
  EXPECT_EQ(index.Find(root, Count(0, 11)).end, End::kEvicted);
  EXPECT_EQ(index.Find(root, Count(0, 30)).end, End::kEvicted) << "a query that goes on past a short tail";
  EXPECT_EQ(index.Find(root, Count(0, 9)).end, End::kEvicted);
  Tokens other = Count(0, 12);
  other[8] = 99;
  EXPECT_EQ(index.Find(root, other).end, End::kAbsent) << "never stored";
  index.Remove(nodes[1]);
  EXPECT_EQ(index.Find(root, Count(0, 11)).end, End::kEvicted);
  EXPECT_EQ(index.Find(root, Count(0, 11)).tokens, 4);
  index.Remove(nodes[0]);
  EXPECT_EQ(index.Find(root, Count(0, 11)).end, End::kEvicted) << "of a root without nodes too";
  EXPECT_EQ(index.Find(RootOf(1), Count(0, 11)).end, End::kAbsent);
  Store(index, root, Count(0, 4));
  EXPECT_EQ(index.Find(root, Count(0, 4)).end, End::kAll);
  EXPECT_EQ(index.Find(root, Count(0, 5)).end, End::kEvicted);
}

TEST(PrefixIndex, ASiblingThatSharesLessDoesNotHideAnEviction) {
  PrefixIndex index({.block_tokens = 4});
  const BlockKey root = RootOf(0);
  const NodeId gone = Store(index, root, {1, 2, 3, 4})[0];
  Store(index, root, {1, 2, 9, 9});
  index.Remove(gone);
  const auto match = index.Find(root, Tokens{1, 2, 3, 4, 5});
  EXPECT_EQ(match.tokens, 2);
  EXPECT_EQ(match.end, End::kEvicted);
  EXPECT_EQ(index.Find(root, Tokens{1, 2, 8, 8}).end, End::kDiffers);
}

TEST(PrefixIndex, RemembersEvictionsUpToItsLimit) {
  PrefixIndex index({.block_tokens = 1, .remembered_evictions = 20});
  const BlockKey root = RootOf(0);
  const int64_t empty = index.bytes();
  for (int32_t i = 0; i < 100; ++i) index.Remove(Store(index, root, {i})[0]);
  EXPECT_EQ(index.Find(root, Tokens{0}).end, End::kAbsent) << "so long ago that it is forgotten";
  EXPECT_EQ(index.Find(root, Tokens{99}).end, End::kEvicted);
  EXPECT_EQ(index.Find(root, Tokens{90}).end, End::kEvicted);
  EXPECT_LE(index.bytes(), empty + 20 * PrefixIndex::kRememberedBytes + PrefixIndex::kSlotBytes);
  PrefixIndex none({.block_tokens = 1, .remembered_evictions = 0});
  none.Remove(Store(none, root, {1})[0]);
  EXPECT_EQ(none.Find(root, Tokens{1}).end, End::kAbsent);
}

TEST(PrefixIndex, GivesARemovedNodesNumberAgain) {
  PrefixIndex index({.block_tokens = 1});
  for (int32_t i = 0; i < 50; ++i) {
    const NodeId id = Store(index, RootOf(0), {i})[0];
    EXPECT_EQ(id, NodeId{0});
    index.Remove(id);
  }
}

TEST(PrefixIndex, ItsBytesAreWhatTheAllocatorGave) {
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "this allocator does not count (a sanitizer's)";
  constexpr int32_t kNodes = 20'000;
  for (const int block : {1, 32}) {
    const auto before = static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd);
    const auto taken = [before] {
      return static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd) - before;
    };
    PrefixIndex index({.block_tokens = block});
    EXPECT_LE(taken(), index.bytes());
    std::vector<NodeId> all;
    const int64_t list = static_cast<int64_t>(sizeof(NodeId)) * kNodes + 4096;
    all.reserve(kNodes);
    for (int32_t i = 0; i < kNodes; ++i) {
      const Tokens tokens = Count(i * 100, block);
      const NodeId parent = i % 4 == 0 ? kNone : all.back();
      all.push_back(index.Add(RootOf(i / 40), i % 4 == 0 ? kNone : parent, tokens, i).id);
      index.SetExpiry(all.back(), i + 1);
      if (i % 1000 == 0) {
        ASSERT_LE(taken() - list, index.bytes()) << i;
      }
    }
    EXPECT_LE(index.bytes(), kNodes * PrefixIndex::NodeBytes(block) + PrefixIndex({}).bytes());
    EXPECT_GE(taken(), index.bytes() / 2) << "no wild overestimate either";
    for (int32_t i = kNodes - 1; i >= 0; --i) {
      index.Remove(all[static_cast<size_t>(i)]);
      if (i % 1000 == 0) {
        ASSERT_LE(taken() - list, index.bytes()) << i;
      }
    }
    EXPECT_EQ(index.nodes(), 0);
  }
}

}  // namespace
}  // namespace holdfast
