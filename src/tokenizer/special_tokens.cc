#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <utility>

namespace holdfast {

int32_t SpecialTokens::Child(int32_t node, unsigned char byte) const {
  int32_t child = nodes_[static_cast<size_t>(node)].first_child;
  while (child >= 0 && nodes_[static_cast<size_t>(child)].byte != byte) {
    child = nodes_[static_cast<size_t>(child)].next_sibling;
  }
  return child;
}

SpecialTokens::SpecialTokens(std::span<const SpecialToken> tokens) {
  if (tokens.empty()) return;
  roots_.assign(256, -1);
  for (const SpecialToken& token : tokens) Add(token);
  for (Node& node : nodes_) {  // parents come before their children
    if (node.parent < 0) continue;
    const Node& parent = nodes_[static_cast<size_t>(node.parent)];
    node.shorter = parent.token >= 0 ? node.parent : parent.shorter;
  }
}

void SpecialTokens::Add(const SpecialToken& token) {
  int32_t node = -1;
  for (const char c : token.text) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t next = node < 0 ? roots_[byte] : Child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      Node fresh;
      fresh.byte = byte;
      fresh.parent = node;
      fresh.depth = node < 0 ? 1 : nodes_[static_cast<size_t>(node)].depth + 1;
      int32_t& first = node < 0 ? roots_[byte] : nodes_[static_cast<size_t>(node)].first_child;
      if (node >= 0) fresh.next_sibling = first;
      first = next;
      nodes_.push_back(fresh);
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].token = token.id;
  nodes_[static_cast<size_t>(node)].control = token.control;
}

int32_t SpecialTokens::LongestAt(std::string_view text, size_t at, bool parse_special) const {
  int32_t node = roots_[static_cast<unsigned char>(text[at])];
  int32_t best = -1;
  for (size_t i = at + 1; node >= 0; ++i) {
    const Node& n = nodes_[static_cast<size_t>(node)];
    if (n.token >= 0 && (parse_special || !n.control)) best = node;
    if (i == text.size()) break;
    node = Child(node, static_cast<unsigned char>(text[i]));
  }
  return best;
}

int32_t SpecialTokens::Shorter(int32_t node, bool parse_special) const {
  do {
    node = nodes_[static_cast<size_t>(node)].shorter;
  } while (node >= 0 && !parse_special && nodes_[static_cast<size_t>(node)].control);
  return node;
}

std::vector<TextFragment> SpecialTokens::Match(std::string_view text, bool parse_special) const {
  struct Candidate {
    size_t begin;
    int32_t node;
  };
  std::vector<std::vector<Candidate>> by_size;  // [token bytes], each ascending by begin
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t node = LongestAt(text, i, parse_special);
    if (node < 0) continue;
    const auto size = static_cast<size_t>(nodes_[static_cast<size_t>(node)].depth);
    if (by_size.size() <= size) by_size.resize(size + 1);
    by_size[size].push_back({i, node});
  }
  std::vector<bool> taken(by_size.empty() ? 0 : text.size());
  std::vector<TextFragment> tokens;
  const auto ascending = [](const Candidate& a, const Candidate& b) { return a.begin < b.begin; };
  for (size_t size = by_size.size(); size-- > 1;) {
    std::vector<Candidate> candidates = std::move(by_size[size]);
    if (!std::is_sorted(candidates.begin(), candidates.end(), ascending)) {
      std::sort(candidates.begin(), candidates.end(), ascending);
    }
    for (const Candidate& c : candidates) {
      if (taken[c.begin]) continue;
      // What is taken is at least as long as this token, so it cannot hide between the two ends.
      if (!taken[c.begin + size - 1]) {
        std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(c.begin), size, true);
        tokens.push_back({c.begin, size, nodes_[static_cast<size_t>(c.node)].token});
        continue;
      }
      const int32_t shorter = Shorter(c.node, parse_special);
      if (shorter < 0) continue;
      by_size[static_cast<size_t>(nodes_[static_cast<size_t>(shorter)].depth)].push_back({c.begin, shorter});
    }
  }
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return tokens;
}

std::vector<TextFragment> SpecialTokens::Split(std::string_view text, bool parse_special) const {
  if (text.empty()) return {};
  if (roots_.empty()) return {{0, text.size(), -1}};
  std::vector<TextFragment> fragments;
  size_t done = 0;
  for (const TextFragment& token : Match(text, parse_special)) {
    if (token.begin > done) fragments.push_back({done, token.begin - done, -1});
    fragments.push_back(token);
    done = token.begin + token.size;
  }
  if (done < text.size()) fragments.push_back({done, text.size() - done, -1});
  return fragments;
}

}  // namespace holdfast
