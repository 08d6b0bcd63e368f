// The kernels of affine6, per instruction set.
#include "codec/kernels/affine_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const CodecKernels kAffine6Kernels;
const CodecKernels kAffine6Kernels =
    PackedKernels<AffineFormat<kAffine6Shape.bits, kAffine6Shape.default_group>>();

}  // namespace holdfast::HOLDFAST_ISA_NS
