// A model that takes no time, for tests of the scheduler: its rows and its next token are functions of everything that
// a sequence holds, so that a row of another sequence's, or of another tenant's, is seen at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/sequence_cache.h"
#include "holdfast/engine.h"
#include "pool/cache_pool.h"

namespace holdfast::testing {

// splitmix64 (Steele, Lea, Flood 2014), as a hash of two words.
uint64_t Mix(uint64_t a, uint64_t b);

// Random numbers that are the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return state_ = Mix(state_, 0x9e3779b97f4a7c15u); }
  int64_t Between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }
  template <typename T>
  T Pick(const std::vector<T>& values) {
    return values[static_cast<size_t>(Between(0, static_cast<int64_t>(values.size()) - 1))];
  }

 private:
  uint64_t state_;
};

// A sequence of one identity as the model sees it: a hash of everything up to each token.
class PretendText {
 public:
  PretendText(const PrefixIdentity& identity, std::span<const int32_t> tokens);
  void Append(int32_t token);
  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  // What the model draws after all of it, and whether that ends the answer.
  int32_t Next() const;
  static bool IsEnd(int32_t token) { return token == 0; }

  // Appends `tokens` rows from the cache's length on to every layer, as a forward pass does.
  Status ComputeRows(SequenceCache& cache, int64_t tokens) const;
  // The first live row that is not what a cold cache would hold, in words; nothing where all are.
  std::optional<std::string> WrongRow(const SequenceCache& cache) const;

 private:
  std::vector<float> Rows(int layer, bool keys, int64_t position, int64_t tokens, int64_t row) const;

  uint64_t root_;
  std::vector<int32_t> tokens_;
  std::vector<uint64_t> states_;  // after each token
};

struct PretendAnswer {
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::kNone;
  friend bool operator==(const PretendAnswer&, const PretendAnswer&) = default;
};
// What a request gets if it runs alone where prompt and answer may have `longest` tokens.
PretendAnswer AnswerAlone(const PrefixIdentity& identity, std::span<const int32_t> prompt, int64_t max_tokens,
                          int64_t longest);

// One layer of each layout, of one KV head of 4 values, in blocks of block_tokens; protected_rows: of int8 with the
// first two and the last five rows in f32.
CacheConfig PretendConfig(const std::vector<LayoutConfig>& layouts, bool protected_rows, int block_tokens,
                          int64_t max_context, int rewind_tokens);

}  // namespace holdfast::testing
