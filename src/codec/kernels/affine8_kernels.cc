// The kernels of affine8, per instruction set.
#include "codec/kernels/affine_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const CodecKernels kAffine8Kernels;
const CodecKernels kAffine8Kernels =
    PackedKernels<AffineFormat<kAffine8Shape.bits, kAffine8Shape.default_group>>();

}  // namespace holdfast::HOLDFAST_ISA_NS
