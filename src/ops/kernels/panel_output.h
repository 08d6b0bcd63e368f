// How a kernel's sums reach the output, the same for all formats. Included by per-ISA kernels only.
#pragma once

#include "ops/kernels/matmul_kernels.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {

// out[0, n) = acc + bias, or out + (acc + bias).
HF_INLINE void StoreOutputs(const PanelCall& call, F32x16 acc, int64_t row, int64_t output, int n) {
  float* out = call.out + row * call.out_stride + output;
  if (n == kPanelOutputs) {
    if (call.bias != nullptr) acc = Add(acc, Load(call.bias + output));
    if (call.accumulate) acc = Add(Load(out), acc);
    Store(out, acc);
    return;
  }
  if (call.bias != nullptr) acc = Add(acc, LoadFirst(call.bias + output, n));
  if (call.accumulate) acc = Add(LoadFirst(out, n), acc);
  StoreFirst(out, acc, n);
}

}  // namespace holdfast::HOLDFAST_ISA_NS
