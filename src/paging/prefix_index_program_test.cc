// Random programs on the index, against a list of the stored sequences that is searched from end to end.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "paging/prefix_index.h"

namespace holdfast {
namespace {

using Tokens = std::vector<int32_t>;
using End = PrefixIndex::End;

BlockKey Collide(const BlockKey&, std::span<const int32_t>) {
  return {};
}

BlockKey RootOf(int tenant) {
  return Sha256Builder("test root", 1).AddU64("tenant", static_cast<uint64_t>(tenant)).Finish();
}

// A node is the whole sequence down to its end.
struct Stored {
  int tenant = 0;
  Tokens sequence;
  int64_t own_tokens = 0;
  NodeId id = NodeId::kNone, parent = NodeId::kNone;
  int64_t age = 0, expiry = 0;
  int users = 0;
  bool pinned = false;
};

int64_t Common(const Tokens& a, const Tokens& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

class Program {
 public:
  Program(uint32_t seed, bool collide)
      : random_(seed),
        block_(1 + static_cast<int>(seed % 5)),
        index_(
            {.block_tokens = block_, .key = collide ? Collide : ChainBlockKey, .remembered_evictions = 1000}),
        keys_differ_(!collide) {}

  void Run(int steps) {
    for (now_ = 1; now_ <= steps && !testing::Test::HasFailure(); ++now_) {
      switch (Below(9)) {
        case 0:
        case 1:
        case 2:
          StoreSequence();
          break;
        case 3:
          Use();
          break;
        case 4:
          Unuse();
          break;
        case 5:
          Mark();
          break;
        default:
          Evict();
      }
      CheckFind();
      CheckCandidate();
    }
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

  // Coarse, so that many are equal.
  int64_t Age() const { return now_ / 8; }

  // Few different tokens, so that sequences share beginnings of every length.
  Tokens Sequence() {
    Tokens tokens(static_cast<size_t>(1 + Below(4 * block_ + 2)));
    for (int32_t& token : tokens) token = Below(5) == 0 ? 1 + Below(2) : 0;
    return tokens;
  }

  Stored* ById(NodeId id) {
    for (Stored& s : stored_) {
      if (s.id == id) return &s;
    }
    return nullptr;
  }

  bool HasChildren(const Stored& node) const {
    return std::any_of(stored_.begin(), stored_.end(), [&](const Stored& s) { return s.parent == node.id; });
  }

  void StoreSequence() {
    const int tenant = Below(2);
    const Tokens tokens = Sequence();
    NodeId parent = NodeId::kNone;
    for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(block_)) {
      const size_t own = std::min(static_cast<size_t>(block_), tokens.size() - at);
      const Tokens whole(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(at + own));
      const auto added = index_.Add(RootOf(tenant), parent, std::span(tokens).subspan(at, own), Age());
      const auto same = std::find_if(stored_.begin(), stored_.end(), [&](const Stored& s) {
        return s.tenant == tenant && s.sequence == whole;
      });
      ASSERT_EQ(added.fresh, same == stored_.end());
      if (!added.fresh) {
        ASSERT_EQ(added.id, same->id);
      } else {
        ASSERT_EQ(ById(added.id), nullptr) << "a number in use";
        ASSERT_EQ(added.superseded, Superseded(tenant, whole, static_cast<int64_t>(own), parent));
        stored_.push_back({tenant, whole, static_cast<int64_t>(own), added.id, parent, Age(), 0, 0, false});
        if (added.superseded != NodeId::kNone && Below(2) == 0) Remove(added.superseded);
      }
      parent = added.id;
    }
  }

  NodeId Superseded(int tenant, const Tokens& whole, int64_t own, NodeId parent) const {
    NodeId best = NodeId::kNone;
    int64_t longest = 0;
    for (const Stored& s : stored_) {
      if (s.tenant != tenant || s.parent != parent || s.users > 0 || s.pinned) continue;
      if (s.own_tokens >= own || s.own_tokens <= longest) continue;
      if (Common(s.sequence, whole) < static_cast<int64_t>(s.sequence.size())) continue;
      best = s.id;
      longest = s.own_tokens;
    }
    return best;
  }

  // A sequence runs on a node and on all above it.
  void Use() {
    if (stored_.empty()) return;
    const NodeId last = stored_[static_cast<size_t>(Below(static_cast<int>(stored_.size())))].id;
    running_.push_back(last);
    ForPath(last, [&](Stored& s) {
      index_.AddUser(s.id);
      index_.Touch(s.id, Age());
      ++s.users;
      s.age = Age();
    });
  }

  void Unuse() {
    if (running_.empty()) return;
    const size_t which = static_cast<size_t>(Below(static_cast<int>(running_.size())));
    ForPath(running_[which], [&](Stored& s) {
      index_.RemoveUser(s.id);
      --s.users;
    });
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(which));
  }

  template <typename F>
  void ForPath(NodeId last, F f) {
    for (Stored* s = ById(last); s != nullptr; s = ById(s->parent)) f(*s);
  }

  void Mark() {
    if (stored_.empty()) return;
    Stored& s = stored_[static_cast<size_t>(Below(static_cast<int>(stored_.size())))];
    if (Below(2) == 0) {
      s.pinned = Below(3) == 0;
      index_.Pin(s.id, s.pinned);
    } else {
      s.expiry = Below(3) == 0 ? 0 : now_ + Below(20);
      index_.SetExpiry(s.id, s.expiry);
    }
  }

  void Evict() {
    const NodeId id = index_.Candidate(now_);
    if (id != NodeId::kNone) Remove(id);
  }

  void Remove(NodeId id) {
    const Stored* s = ById(id);
    ASSERT_NE(s, nullptr);
    removed_.insert({s->tenant, s->sequence});
    index_.Remove(id);
    stored_.erase(stored_.begin() + (s - stored_.data()));
  }

  void CheckFind() {
    const int tenant = Below(2);
    const Tokens query = Sequence();
    const auto match = index_.Find(RootOf(tenant), query);
    int64_t longest = 0;
    bool goes_on = false, all_stored_there = false;
    for (const Stored& s : stored_) {
      if (s.tenant == tenant) longest = std::max(longest, Common(s.sequence, query));
    }
    for (const Stored& s : stored_) {
      if (s.tenant != tenant || Common(s.sequence, query) != longest) continue;
      goes_on |= static_cast<int64_t>(s.sequence.size()) > longest;
      all_stored_there = true;
    }
    ASSERT_EQ(match.tokens, longest);
    ASSERT_EQ(match.nodes.size(), static_cast<size_t>((longest + block_ - 1) / block_));
    CheckPath(tenant, query, match);
    if (longest == static_cast<int64_t>(query.size())) {
      ASSERT_EQ(match.end, End::kAll);
    } else if (match.end != End::kEvicted) {
      ASSERT_EQ(match.end, all_stored_there && goes_on ? End::kDiffers : End::kAbsent);
    } else if (keys_differ_) {
      ASSERT_TRUE(WasLonger(tenant, query, longest)) << "nothing longer was ever removed";
    }
  }

  // The nodes are those of the query's beginning, each the parent of the next.
  void CheckPath(int tenant, const Tokens& query, const PrefixIndex::Match& match) {
    NodeId parent = NodeId::kNone;
    for (const NodeId id : match.nodes) {
      const Stored* s = ById(id);
      ASSERT_NE(s, nullptr);
      ASSERT_EQ(s->tenant, tenant);
      ASSERT_EQ(s->parent, parent);
      ASSERT_EQ(index_.parent(id), parent);
      const int64_t common = Common(s->sequence, query);
      ASSERT_EQ(common, id == match.nodes.back() ? match.tokens : static_cast<int64_t>(s->sequence.size()));
      parent = id;
    }
  }

  bool WasLonger(int tenant, const Tokens& query, int64_t than) const {
    return std::any_of(removed_.begin(), removed_.end(),
                       [&](const auto& r) { return r.first == tenant && Common(r.second, query) > than; });
  }

  void CheckCandidate() {
    const Stored* best = nullptr;
    const auto rank = [&](const Stored& s) {
      const bool expired = s.expiry != 0 && s.expiry <= now_;
      return std::tuple(!expired, expired ? s.expiry : 0, s.age,
                        s.own_tokens - static_cast<int64_t>(s.sequence.size()), s.id);
    };
    for (const Stored& s : stored_) {
      if (s.users > 0 || s.pinned || HasChildren(s)) continue;
      if (best == nullptr || rank(s) < rank(*best)) best = &s;
    }
    ASSERT_EQ(index_.Candidate(now_), best == nullptr ? NodeId::kNone : best->id);
    const bool expired = best != nullptr && !std::get<0>(rank(*best));
    ASSERT_EQ(index_.Expired(now_), expired ? best->id : NodeId::kNone);
    ASSERT_EQ(index_.nodes(), static_cast<int64_t>(stored_.size()));
  }

  std::mt19937 random_;
  int block_;
  PrefixIndex index_;
  bool keys_differ_;
  int64_t now_ = 0;
  std::vector<Stored> stored_;
  std::vector<NodeId> running_;
  std::set<std::pair<int, Tokens>> removed_;
};

TEST(PrefixIndexProgram, AnswersAsASearchOfEverySequenceDoes) {
  for (uint32_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Program(seed, false).Run(300);
  }
}

TEST(PrefixIndexProgram, AnswersTheSameWhereEveryKeyCollides) {
  for (uint32_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Program(seed, true).Run(300);
  }
}

}  // namespace
}  // namespace holdfast
