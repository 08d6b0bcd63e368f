// The brute-force oracle: it keeps every row of a sequence, applies the rule of visibility itself and
// computes in double. It shares nothing with cache/ and attention/ but the codecs' encoders and decoders.
#pragma once

#include <cstdint>
#include <vector>

#include "program.h"

namespace holdfast::cube {

// A token's input to a layer.
struct Token {
  std::vector<float> k;  // [kv_heads, k_dim]
  std::vector<float> v;  // [kv_heads, v_dim]; empty for a latent row
  std::vector<float> q;  // [kv_heads * group, k_dim]
};

// Number `serial` of the program whose rows these are: every token ever appended has its own.
Token MakeToken(const Setup& setup, uint64_t serial);

class Oracle {
 public:
  explicit Oracle(const Setup& setup) : setup_(setup) {}

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  const Token& token(int64_t position) const { return tokens_[static_cast<size_t>(position)]; }
  void Append(Token token);

  // The rule of rewinding, said again: see docs/adr.
  int64_t rewindable() const;
  void Rewind(int64_t n);
  int64_t live_rows() const;

  // Output [kv_heads * group, v_dim] of the query at `position`; scale: of its scores.
  std::vector<double> Attend(int64_t position, double scale) const;
  // Largest magnitude of a decoded V value: what tolerances are relative to.
  double largest_v() const { return largest_v_; }

 private:
  struct Decoded {
    std::vector<float> k;
    std::vector<float> v;
  };
  bool Sees(int64_t query, int64_t position) const;
  bool GaveUpRows() const;

  Setup setup_;
  std::vector<Token> tokens_;
  std::vector<Decoded> decoded_;
  int64_t max_length_ = 0;
  double largest_v_ = 0.0;
};

}  // namespace holdfast::cube
