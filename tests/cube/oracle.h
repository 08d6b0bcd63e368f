// The brute-force oracle: it keeps every row of a sequence, applies the rule of visibility itself and
// computes in double, over rows brought back to the caller's basis. It shares nothing with cache/, attention/ and kv/ but
// the codecs' encoders and decoders and the rotation of a row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "codec/transform.h"
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
  struct Rows {
    std::vector<float> k;
    std::vector<float> v;
  };

  explicit Oracle(const Setup& setup);

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  const Token& token(int64_t position) const { return tokens_[static_cast<size_t>(position)]; }
  // Its rows as the cache is given them: centred and rotated.
  const Rows& stored(int64_t position) const { return stored_[static_cast<size_t>(position)]; }
  void Append(Token token);

  // The rule of rewinding, said again: see docs/adr.
  int64_t rewindable() const;
  void Rewind(int64_t n);
  int64_t live_rows() const;
  int64_t protected_live_rows() const;

  // Output [kv_heads * group, v_dim] of the query at `position`; scale: of its scores.
  std::vector<double> Attend(int64_t position, double scale) const;
  // Largest magnitude of a decoded V value, as stored or in the caller's basis: what tolerances are relative to.
  double largest_v() const { return largest_v_; }
  bool rotates_v() const { return rotates_v_; }

 private:
  // Values that are rotated together.
  struct Part {
    int first = 0;
    RowTransform transform;
  };
  void TransformHead(int head, Rows& stored) const;
  void DecodeHead(int head, const KvSpec& codecs, const Rows& stored, Rows& decoded);
  void NoteLargest(const float* values, int count);
  bool Sees(int64_t query, int64_t position) const;
  bool GaveUpRows() const;
  // Whether the query finds the row among the protected ones.
  bool IsProtected(int64_t query, int64_t position) const;
  int64_t protected_sinks() const;
  int64_t recent() const { return std::max<int64_t>(setup_.recent, 1); }

  Setup setup_;
  std::vector<Token> tokens_;
  std::vector<Rows> stored_;
  std::vector<Rows> decoded_;
  std::vector<Rows> protected_;  // the same rows as the protecting codecs give them back
  std::vector<Part> k_parts_;
  Part v_part_;
  std::shared_ptr<const std::vector<float>> k_center_, v_center_;
  bool rotates_v_ = false;
  int64_t max_length_ = 0;
  double largest_v_ = 0.0;
};

}  // namespace holdfast::cube
