// The kernels of f32, per instruction set.
#include "codec/kernels/float_kernels.h"

namespace holdfast::HOLDFAST_ISA_NS {
extern const CodecKernels kF32Kernels;
const CodecKernels kF32Kernels = FloatKernels<PlainFloats>::Table();

}  // namespace holdfast::HOLDFAST_ISA_NS
