// The kernels of bf16, per instruction set.
#include "codec/kernels/float_kernels.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

struct Bf16Lanes {
  using Element = uint16_t;
  HF_INLINE F32x16 Load(const void* p) { return LoadBf16(p); }
  HF_INLINE void Store(void* p, F32x16 v) { StoreBf16(p, v); }
};

}  // namespace

extern const CodecKernels kBf16Kernels;
const CodecKernels kBf16Kernels = FloatKernels<Bf16Lanes>::Table();

}  // namespace holdfast::HOLDFAST_ISA_NS
