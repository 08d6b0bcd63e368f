#include "paging/prefix_index.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <tuple>

namespace holdfast {
namespace {

int64_t Common(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

bool Less(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

std::span<const int32_t> First(std::span<const int32_t> tokens, int64_t count) {
  return tokens.first(std::min(tokens.size(), static_cast<size_t>(count)));
}

// What malloc takes for so many bytes.
constexpr int64_t Allocation(size_t bytes) {
  return static_cast<int64_t>((bytes + 8 + 15) / 16 * 16);
}

constexpr size_t kTreeLinks = 32;              // of a node of std::set
constexpr int64_t kBucketBytes = 16;           // of std::unordered_map, an entry: it doubles
constexpr int64_t kEmptyBytes = 512 + 3 * 64;  // the first chunk of a deque and its table

uint64_t Shortened(const BlockKey& key) {
  uint64_t number;
  std::memcpy(&number, key.data(), sizeof number);
  return number;
}

}  // namespace

BlockKey ChainBlockKey(const BlockKey& parent, std::span<const int32_t> tokens) {
  return Sha256Builder("holdfast block", 1).AddDigest("parent", parent).AddTokens("tokens", tokens).Finish();
}

struct PrefixIndex::Root {
  const BlockKey* key = nullptr;
  Siblings children;
};

struct PrefixIndex::Node {
  NodeId id = NodeId::kNone;
  Root* root = nullptr;
  Node* parent = nullptr;  // null: the root
  BlockKey key = {};
  std::vector<int32_t> tokens;
  int64_t depth_tokens = 0, age = 0, expiry = 0;
  int32_t users = 0;
  bool pinned = false;
  bool offered = false;  // as a candidate
  Siblings children;

  Siblings& siblings() { return parent == nullptr ? root->children : parent->children; }
  const BlockKey& parent_key() const { return parent == nullptr ? *root->key : parent->key; }
};

bool PrefixIndex::TokenOrder::operator()(const Node* a, const Node* b) const {
  return Less(a->tokens, b->tokens);
}
bool PrefixIndex::TokenOrder::operator()(const Node* a, std::span<const int32_t> b) const {
  return Less(a->tokens, b);
}
bool PrefixIndex::TokenOrder::operator()(std::span<const int32_t> a, const Node* b) const {
  return Less(a, b->tokens);
}

bool PrefixIndex::AgeOrder::operator()(const Node* a, const Node* b) const {
  return std::tuple(a->age, -a->depth_tokens, a->id) < std::tuple(b->age, -b->depth_tokens, b->id);
}
bool PrefixIndex::ExpiryOrder::operator()(const Node* a, const Node* b) const {
  return a->expiry != b->expiry ? a->expiry < b->expiry : AgeOrder()(a, b);
}

PrefixIndex::PrefixIndex(const Options& options) : options_(options) {
  assert(options.block_tokens >= 1);
}
PrefixIndex::~PrefixIndex() = default;

// Those that share most with `tokens` lie together in the order, around where it belongs itself. Of two with as much in
// common the one that goes on is told of: that it differs is more than that nothing follows.
PrefixIndex::Closest PrefixIndex::FindClosest(const Siblings& siblings, std::span<const int32_t> tokens) {
  Closest best;
  const auto after = siblings.lower_bound(tokens);
  if (after != siblings.end()) best = {*after, Common((*after)->tokens, tokens)};
  if (after == siblings.begin()) return best;
  const Node* before = *std::prev(after);
  const int64_t common = Common(before->tokens, tokens);
  if (best.node == nullptr || common > best.common) best = {before, common};
  return best;
}

PrefixIndex::Match PrefixIndex::Find(const BlockKey& root, std::span<const int32_t> tokens) const {
  Match match;
  const auto found = roots_.find(root);
  const Siblings* children = found == roots_.end() ? nullptr : &found->second.children;
  const BlockKey* parent_key = &root;
  std::span<const int32_t> block = First(tokens, options_.block_tokens);
  Closest closest;
  while (!block.empty()) {
    closest = children == nullptr ? Closest{} : FindClosest(*children, block);
    if (closest.common == 0) break;
    match.nodes.push_back(closest.node->id);
    match.tokens += closest.common;
    if (closest.common < options_.block_tokens) break;
    children = &closest.node->children;
    parent_key = &closest.node->key;
    block = First(tokens.subspan(static_cast<size_t>(match.tokens)), options_.block_tokens);
  }
  if (match.tokens == static_cast<int64_t>(tokens.size())) {
    match.end = End::kAll;
  } else if (!remembered_.empty() &&
             Remembers(options_.key(*parent_key, closest.common == 0 ? block.first(1) : block))) {
    match.end = End::kEvicted;
  } else if (closest.node != nullptr && closest.common < static_cast<int64_t>(closest.node->tokens.size())) {
    match.end = End::kDiffers;
  }
  return match;
}

// All shorter nodes that `tokens` begins with come before it, the longest last, with others among them that share
// less than it has.
NodeId PrefixIndex::FindSuperseded(const Siblings& siblings, std::span<const int32_t> tokens) {
  auto longest = static_cast<int64_t>(tokens.size()) - 1;
  while (longest > 0) {
    const auto after = siblings.upper_bound(First(tokens, longest));
    if (after == siblings.begin()) break;
    const Node& before = **std::prev(after);
    const int64_t common = Common(before.tokens, tokens);
    const bool prefix = common == static_cast<int64_t>(before.tokens.size());
    if (prefix && before.users == 0 && !before.pinned) return before.id;
    longest = prefix ? common - 1 : common;
  }
  return NodeId::kNone;
}

PrefixIndex::Added PrefixIndex::Add(const BlockKey& root, NodeId parent, std::span<const int32_t> tokens,
                                    int64_t now) {
  assert(!tokens.empty() && tokens.size() <= static_cast<size_t>(options_.block_tokens));
  const auto place = roots_.try_emplace(root).first;
  place->second.key = &place->first;
  Node* above = parent == NodeId::kNone ? nullptr : &At(parent);
  assert(above == nullptr || (above->root == &place->second &&
                              above->tokens.size() == static_cast<size_t>(options_.block_tokens)));
  Siblings& siblings = above == nullptr ? place->second.children : above->children;
  if (const auto same = siblings.find(tokens); same != siblings.end()) return {.id = (*same)->id};

  Added added{.id = NewId(), .fresh = true, .superseded = FindSuperseded(siblings, tokens)};
  auto node = std::make_unique<Node>();
  node->id = added.id;
  node->root = &place->second;
  node->parent = above;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->key = options_.key(node->parent_key(), tokens);
  if (above != nullptr) node->depth_tokens = above->depth_tokens + options_.block_tokens;
  node->age = now;
  if (above != nullptr) Withdraw(*above);
  siblings.insert(node.get());
  Offer(*node);
  if (!remembered_.empty()) {
    Forget(node->key);
    Forget(options_.key(node->parent_key(), tokens.first(1)));
  }
  nodes_[static_cast<size_t>(added.id)] = std::move(node);
  return added;
}

void PrefixIndex::Remove(NodeId id) {
  Node& node = At(id);
  assert(node.children.empty() && node.users == 0);
  Withdraw(node);
  node.siblings().erase(&node);
  if (options_.remembered_evictions > 0) {
    Remember(node.key);
    // What begins like it and then goes another way has lost it too.
    Remember(options_.key(node.parent_key(), First(node.tokens, 1)));
  }
  if (node.parent != nullptr) Offer(*node.parent);
  if (node.root->children.empty()) roots_.erase(roots_.find(*node.root->key));
  free_ids_.push_back(id);
  nodes_[static_cast<size_t>(id)] = nullptr;
}

NodeId PrefixIndex::NewId() {
  if (free_ids_.empty()) {
    nodes_.emplace_back();
    return static_cast<NodeId>(nodes_.size() - 1);
  }
  const NodeId id = free_ids_.back();
  free_ids_.pop_back();
  return id;
}

PrefixIndex::Node& PrefixIndex::At(NodeId id) const {
  const auto index = static_cast<size_t>(id);
  assert(index < nodes_.size() && nodes_[index] != nullptr);
  return *nodes_[index];
}

void PrefixIndex::Withdraw(Node& node) {
  if (!node.offered) return;
  node.offered = false;
  by_age_.erase(&node);
  if (node.expiry != 0) by_expiry_.erase(&node);
}

void PrefixIndex::Offer(Node& node) {
  if (!node.children.empty() || node.users > 0 || node.pinned) return;
  node.offered = true;
  by_age_.insert(&node);
  if (node.expiry != 0) by_expiry_.insert(&node);
}

void PrefixIndex::AddUser(NodeId id) {
  Node& node = At(id);
  Withdraw(node);
  ++node.users;
}

void PrefixIndex::RemoveUser(NodeId id) {
  Node& node = At(id);
  assert(node.users > 0);
  --node.users;
  Offer(node);
}

void PrefixIndex::Touch(NodeId id, int64_t now) {
  Node& node = At(id);
  Withdraw(node);
  node.age = now;
  Offer(node);
}

void PrefixIndex::Pin(NodeId id, bool pinned) {
  Node& node = At(id);
  Withdraw(node);
  node.pinned = pinned;
  Offer(node);
}

void PrefixIndex::SetExpiry(NodeId id, int64_t deadline) {
  Node& node = At(id);
  Withdraw(node);
  node.expiry = deadline;
  Offer(node);
}

NodeId PrefixIndex::Expired(int64_t now) const {
  if (by_expiry_.empty() || (*by_expiry_.begin())->expiry > now) return NodeId::kNone;
  return (*by_expiry_.begin())->id;
}

NodeId PrefixIndex::Candidate(int64_t now) const {
  const NodeId expired = Expired(now);
  if (expired != NodeId::kNone || by_age_.empty()) return expired;
  return (*by_age_.begin())->id;
}

void PrefixIndex::Remember(const BlockKey& key) {
  const uint64_t number = Shortened(key);
  remembered_[number] = ++evictions_;
  remembered_order_.emplace_back(number, evictions_);
  if (static_cast<int64_t>(remembered_order_.size()) <= options_.remembered_evictions) return;
  const auto [oldest, when] = remembered_order_.front();
  remembered_order_.pop_front();
  const auto found = remembered_.find(oldest);
  if (found != remembered_.end() && found->second == when) remembered_.erase(found);
}

void PrefixIndex::Forget(const BlockKey& key) {
  remembered_.erase(Shortened(key));
}

bool PrefixIndex::Remembers(const BlockKey& key) const {
  return remembered_.contains(Shortened(key));
}

const BlockKey& PrefixIndex::key(NodeId id) const {
  return At(id).key;
}
std::span<const int32_t> PrefixIndex::tokens(NodeId id) const {
  return At(id).tokens;
}
NodeId PrefixIndex::parent(NodeId id) const {
  const Node* above = At(id).parent;
  return above == nullptr ? NodeId::kNone : above->id;
}
int64_t PrefixIndex::depth_tokens(NodeId id) const {
  return At(id).depth_tokens;
}
int32_t PrefixIndex::users(NodeId id) const {
  return At(id).users;
}
int64_t PrefixIndex::age(NodeId id) const {
  return At(id).age;
}
bool PrefixIndex::has_root(const BlockKey& root) const {
  return roots_.contains(root);
}
int64_t PrefixIndex::nodes() const {
  return static_cast<int64_t>(nodes_.size() - free_ids_.size());
}

int64_t PrefixIndex::NodeBytes(int block_tokens) {
  constexpr int64_t kPlaces =
      3 * Allocation(kTreeLinks + sizeof(Node*));  // among its siblings, by age, by expiry
  // A root of its own, at worst.
  constexpr int64_t kRoot =
      Allocation(sizeof(std::pair<const BlockKey, Root>) + 2 * sizeof(void*)) + kBucketBytes;
  return kRoot + Allocation(sizeof(Node)) + kPlaces + kSlotBytes +
         Allocation(static_cast<size_t>(block_tokens) * sizeof(int32_t));
}

int64_t PrefixIndex::bytes() const {
  return kEmptyBytes + nodes() * NodeBytes(options_.block_tokens) +
         static_cast<int64_t>(free_ids_.size()) * kSlotBytes +
         static_cast<int64_t>(remembered_order_.size()) * kRememberedBytes;
}

}  // namespace holdfast
