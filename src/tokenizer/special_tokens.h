// Finds the tokens that are read from the text as they stand, before any merging: user-defined ones always,
// control ones on request.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// A stretch of the text: one token, or text that is still to be merged (token -1).
struct TextFragment {
  size_t begin = 0, size = 0;
  int32_t token = -1;
};

struct SpecialToken {
  std::string_view text;
  int32_t id;
  bool control;  // matches only where parse_special asks
};

// Immutable and thread-safe once built.
class SpecialTokens {
 public:
  SpecialTokens() = default;
  // REQUIRES: texts are distinct and not empty. They are not referred to afterwards.
  explicit SpecialTokens(std::span<const SpecialToken> tokens);

  // The text cut at every token. Longer tokens take their places first, each from left to right, which is
  // llama.cpp's order: "a\n\n\n" is "a" and the token of three newlines. Time O(text x longest chain of
  // tokens that begin one another), memory O(text).
  std::vector<TextFragment> Split(std::string_view text, bool parse_special) const;

 private:
  // A trie with sibling lists: few nodes have more than a handful of children.
  struct Node {
    int32_t parent = -1, first_child = -1, next_sibling = -1;
    int32_t token = -1;
    int32_t depth = 0;
    int32_t shorter = -1;  // nearest ancestor that ends a token
    unsigned char byte = 0;
    bool control = false;
  };
  void Add(const SpecialToken& token);
  int32_t Child(int32_t node, unsigned char byte) const;
  // The tokens of the text, ascending by begin.
  std::vector<TextFragment> Match(std::string_view text, bool parse_special) const;
  // The deepest node that ends an allowed token beginning at `at`, or -1.
  int32_t LongestAt(std::string_view text, size_t at, bool parse_special) const;
  int32_t Shorter(int32_t node, bool parse_special) const;

  std::vector<Node> nodes_;
  std::vector<int32_t> roots_;  // [256] by first byte; empty while there is no token
};

}  // namespace holdfast
