// The kernels of f32, per instruction set.
#include "codec/kernels/float_kernels.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

struct F32Lanes {
  using Element = float;
  HF_INLINE F32x16 Load(const void* p) { return HOLDFAST_ISA_NS::Load(static_cast<const float*>(p)); }
  HF_INLINE void Store(void* p, F32x16 v) { HOLDFAST_ISA_NS::Store(static_cast<float*>(p), v); }
};

}  // namespace

extern const CodecKernels kF32Kernels;
const CodecKernels kF32Kernels = FloatKernels<F32Lanes>::Table();

}  // namespace holdfast::HOLDFAST_ISA_NS
