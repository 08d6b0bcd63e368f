// Row-wise operations between products. Every row is computed alone, in one fixed order of lanes, so its bits
// depend on nothing else. All run over rows in parallel where that pays; one row runs on the calling thread.
// Pointers may alias only where said. Values that are not finite propagate.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "ops/rope.h"  // IWYU pragma: export: callers of one want the other
#include "simd/isa.h"

namespace holdfast {

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, rows of `dim`; out may be x. (Zhang & Sennrich 2019,
// arXiv:1910.07467.) Rows of x and out are x_stride, out_stride floats apart; weight [dim]. accumulate:
// out[r] += the result instead (a post-norm before a residual add); out then must not overlap x.
void RmsNorm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t dim,
             float* out, int64_t out_stride, bool accumulate, Isa isa, ThreadPool& pool);

enum class Activation : uint8_t { kSilu, kGeluTanh };

// gate[r][i] = f(gate[r][i]) * up[r][i]; rows of `dim`, stride apart in both, in place.
void GatedActivation(Activation f, float* gate, const float* up, int64_t rows, int64_t dim, int64_t stride,
                     Isa isa, ThreadPool& pool);

}  // namespace holdfast
