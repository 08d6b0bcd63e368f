// The kernels of affine4, per instruction set.
#include "codec/kernels/affine_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const CodecKernels kAffine4Kernels;
const CodecKernels kAffine4Kernels =
    PackedKernels<AffineFormat<kAffine4Shape.bits, kAffine4Shape.default_group>>();

}  // namespace holdfast::HOLDFAST_ISA_NS
