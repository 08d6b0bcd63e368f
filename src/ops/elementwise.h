// Row-wise operations between products. Every row is computed alone, in one fixed order of lanes, so its bits depend
// on nothing else. All run over rows in parallel where that pays. Pointers may alias only where said.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "holdfast/status.h"
#include "simd/isa.h"

namespace holdfast {

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, rows of `dim`; out may be x. (Zhang & Sennrich 2019.) Rows of
// x and out are x_stride, out_stride floats apart. add: where not null, out[r] += the result instead (a post-norm
// before a residual add); add may be out.
void RmsNorm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t dim, float* out,
             int64_t out_stride, bool accumulate, Isa isa, ThreadPool& pool);

enum class Activation : uint8_t { kSilu, kGeluTanh };

// gate[r][i] = f(gate[r][i]) * up[r][i]; rows of `dim`, stride apart, in place.
void GatedActivation(Activation f, float* gate, const float* up, int64_t rows, int64_t dim, int64_t stride, Isa isa,
                     ThreadPool& pool);

// Rotary position embedding (Su et al. 2021). Frequencies are computed once, in double.
enum class RopePairing : uint8_t {
  kHalves,       // pairs (i, i + dim/2): Hugging Face, NeoX
  kInterleaved,  // pairs (2i, 2i + 1): GGUF's llama
};
struct RopeScaling {
  enum class Kind : uint8_t { kNone, kLinear, kLlama3 } kind = Kind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;   // kLlama3
  int64_t original_max_position = 8192;                   // kLlama3
};
class Rope {
 public:
  // rotary_dim <= head_dim, even: values past it are left alone. freq_factors: divides each pair's frequency
  // (GGUF rope_freqs.weight), [rotary_dim/2] or empty.
  static Result<Rope> Create(int head_dim, int rotary_dim, double base, RopePairing pairing, const RopeScaling& scaling,
                             std::span<const float> freq_factors);
  // x [tokens, heads, head_dim], rows token_stride floats apart, rotated in place; positions [tokens].
  void Apply(float* x, int64_t tokens, int64_t heads, int64_t token_stride, std::span<const int64_t> positions, Isa isa,
             ThreadPool& pool) const;

 private:
  int head_dim_ = 0, rotary_dim_ = 0;
  RopePairing pairing_ = RopePairing::kHalves;
  std::vector<double> inverse_frequency_;  // [rotary_dim/2] radians per position
};

}  // namespace holdfast
