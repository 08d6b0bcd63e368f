// Row-wise operations: RMS norm, gated activations, rotary embedding.
#include "ops/kernels/elementwise_kernels.h"

#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// Four chains of sixteen lanes, added as (0+1)+(2+3), then lanes in HSum's order.
float SumOfSquares(const float* x, int64_t dim) {
  F32x16 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  int64_t i = 0;
  for (; i + 64 <= dim; i += 64) {
    for (int c = 0; c < 4; ++c) {
      const F32x16 v = Load(x + i + 16 * c);
      sum[c] = Fma(v, v, sum[c]);
    }
  }
  for (int c = 0; i < dim; i += 16, ++c) {
    const F32x16 v = dim - i >= 16 ? Load(x + i) : LoadFirst(x + i, static_cast<int>(dim - i));
    sum[c] = Fma(v, v, sum[c]);
  }
  return HSum(Add(Add(sum[0], sum[1]), Add(sum[2], sum[3])));
}

void RmsNormRow(const float* x, const float* weight, float eps, int64_t dim, float* out, bool accumulate) {
  const float mean = SumOfSquares(x, dim) / static_cast<float>(dim);
  const F32x16 scale = Div(Set(1.0f), Sqrt(Set(mean + eps)));
  int64_t i = 0;
  for (; i + 16 <= dim; i += 16) {
    F32x16 v = Mul(Mul(Load(x + i), scale), Load(weight + i));
    if (accumulate) v = Add(Load(out + i), v);
    Store(out + i, v);
  }
  if (i < dim) {
    const int n = static_cast<int>(dim - i);
    F32x16 v = Mul(Mul(LoadFirst(x + i, n), scale), LoadFirst(weight + i, n));
    if (accumulate) v = Add(LoadFirst(out + i, n), v);
    StoreFirst(out + i, v, n);
  }
}

enum class Function { kSilu, kGeluTanh };

template <Function f>
HF_INLINE F32x16 Activate(F32x16 x) {
  return f == Function::kSilu ? Silu(x) : GeluTanh(x);
}

template <Function f>
void Gated(float* gate, const float* up, int64_t dim) {
  int64_t i = 0;
  for (; i + 16 <= dim; i += 16) Store(gate + i, Mul(Activate<f>(Load(gate + i)), Load(up + i)));
  if (i < dim) {
    const int n = static_cast<int>(dim - i);
    StoreFirst(gate + i, Mul(Activate<f>(LoadFirst(gate + i, n)), LoadFirst(up + i, n)), n);
  }
}

void RotateHalves(float* x, int64_t heads, int64_t head_dim, int64_t pairs, const float* angles) {
  for (int64_t h = 0; h < heads; ++h, x += head_dim) {
    int64_t i = 0;
    for (; i + 16 <= pairs; i += 16) {
      const F32x16 a = Load(x + i), b = Load(x + pairs + i);
      const F32x16 cosine = Load(angles + i), sine = Load(angles + pairs + i);
      Store(x + i, Sub(Mul(a, cosine), Mul(b, sine)));
      Store(x + pairs + i, Add(Mul(b, cosine), Mul(a, sine)));
    }
    for (; i < pairs; ++i) {
      const float a = x[i], b = x[pairs + i];
      x[i] = a * angles[i] - b * angles[pairs + i];
      x[pairs + i] = b * angles[i] + a * angles[pairs + i];
    }
  }
}

// Plain loops: the compiler interleaves with the tier's own shuffles, and nothing is summed, so the bits are
// the same. Both halves wait aside, or it would have to order its stores behind every load.
void RotateInterleaved(float* x, int64_t heads, int64_t head_dim, int64_t pairs, const float* angles) {
  const float* __restrict cosine = angles;
  const float* __restrict sine = angles + pairs;
  for (int64_t h = 0; h < heads; ++h) {
    float* v = x + h * head_dim;
    alignas(64) float first[kMostRotaryPairs], second[kMostRotaryPairs];
    for (int64_t i = 0; i < pairs; ++i) {
      const float a = v[2 * i], b = v[2 * i + 1];
      first[i] = a * cosine[i] - b * sine[i];
      second[i] = b * cosine[i] + a * sine[i];
    }
    __builtin_memcpy(v, first, static_cast<size_t>(pairs) * sizeof(float));
    __builtin_memcpy(v + pairs, second, static_cast<size_t>(pairs) * sizeof(float));
  }
}

}  // namespace

extern const ElementwiseKernels kElementwiseKernels;
const ElementwiseKernels kElementwiseKernels = {
    &RmsNormRow, &Gated<Function::kSilu>, &Gated<Function::kGeluTanh>, &RotateHalves, &RotateInterleaved};

}  // namespace holdfast::HOLDFAST_ISA_NS
