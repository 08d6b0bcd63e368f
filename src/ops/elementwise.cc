#include "ops/elementwise.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/kernels/elementwise_kernels.h"
#include "ops/row_tasks.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(ElementwiseKernels, kElementwiseKernels)

void RmsNorm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t dim,
             float* out, int64_t out_stride, bool accumulate, Isa isa, ThreadPool& pool) {
  const auto row_kernel = HOLDFAST_SELECT_KERNELS(isa, kElementwiseKernels).rms_norm;
  ForEachRow(rows, dim, pool, [&](int64_t r) {
    row_kernel(x + r * x_stride, weight, eps, dim, out + r * out_stride, accumulate);
  });
}

void GatedActivation(Activation f, float* gate, const float* up, int64_t rows, int64_t dim, int64_t stride,
                     Isa isa, ThreadPool& pool) {
  const ElementwiseKernels& kernels = HOLDFAST_SELECT_KERNELS(isa, kElementwiseKernels);
  const auto row_kernel = f == Activation::kSilu ? kernels.gated_silu : kernels.gated_gelu_tanh;
  ForEachRow(rows, dim, pool, [&](int64_t r) { row_kernel(gate + r * stride, up + r * stride, dim); });
}

}  // namespace holdfast
