// Rotary position embedding (Su et al. 2021, arXiv:2104.09864). Frequencies and angles are computed in
// double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "holdfast/status.h"
#include "simd/isa.h"

namespace holdfast {

enum class RopePairing : uint8_t {
  kHalves,  // pairs (i, i + rotary_dim/2): Hugging Face, NeoX
  // Pairs (2i, 2i + 1) on the way in, as GGUF's llama has them; they leave as pairs (i, i + rotary_dim/2). Queries and
  // keys are moved alike, so no score sees it, but a codec's groups of dims do: quantised keys are nearer to the
  // original where a group is not all slow pairs.
  kInterleaved,
};

struct RopeScaling {
  enum class Kind : uint8_t { kNone, kLinear, kLlama3 } kind = Kind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // kLlama3
  int64_t original_max_position = 8192;                  // kLlama3
};

// Cosines and sines of a batch's positions, computed once for all heads and layers that share a Rope. Keeps
// its memory between uses.
class RopeTable {
 public:
  int64_t tokens() const { return tokens_; }
  int64_t bytes() const { return static_cast<int64_t>(values_.capacity() * sizeof(float)); }

 private:
  friend class Rope;
  int64_t tokens_ = 0;
  std::vector<float> values_;  // [tokens][2][rotary_dim/2]: cosines, sines
};

// Immutable; thread-safe.
class Rope {
 public:
  // rotary_dim <= head_dim, even: values past it are left alone. freq_factors: divides each pair's frequency
  // (GGUF rope_freqs.weight), [rotary_dim/2] or empty. Errors: kInvalidArgument naming the value.
  static Result<Rope> Create(int head_dim, int rotary_dim, double base, RopePairing pairing,
                             const RopeScaling& scaling, std::span<const float> freq_factors);

  // table := the angles of `positions`.
  void Fill(std::span<const int64_t> positions, RopeTable& table, ThreadPool& pool) const;
  // x [tokens, heads, head_dim], rows token_stride floats apart, rotated in place by a table that this Rope
  // filled. REQUIRES tokens == table.tokens().
  void Apply(float* x, int64_t tokens, int64_t heads, int64_t token_stride, const RopeTable& table, Isa isa,
             ThreadPool& pool) const;
  // The same with a table made on the spot. positions [tokens].
  void Apply(float* x, int64_t tokens, int64_t heads, int64_t token_stride,
             std::span<const int64_t> positions, Isa isa, ThreadPool& pool) const;

 private:
  int head_dim_ = 0, rotary_dim_ = 0;
  RopePairing pairing_ = RopePairing::kHalves;
  std::vector<double> inverse_frequency_;  // [rotary_dim/2] radians per position
};

}  // namespace holdfast
