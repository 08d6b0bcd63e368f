// The kernels of f16, per instruction set.
#include "codec/kernels/float_kernels.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

struct F16Lanes {
  using Element = uint16_t;
  HF_INLINE F32x16 Load(const void* p) { return LoadF16(p); }
  HF_INLINE void Store(void* p, F32x16 v) { StoreF16(p, v); }
};

}  // namespace

extern const CodecKernels kF16Kernels;
const CodecKernels kF16Kernels = FloatKernels<F16Lanes>::Table();

}  // namespace holdfast::HOLDFAST_ISA_NS
