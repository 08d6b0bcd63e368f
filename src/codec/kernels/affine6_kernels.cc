// The kernels of affine6, per instruction set.
#include "codec/kernels/affine_format.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// A type of this file's own, so that nothing made from it can be shared with another instruction set's.
struct Affine6Format : AffineFormat<kAffine6Shape.bits, kAffine6Shape.default_group> {};

}  // namespace

extern const CodecKernels kAffine6Kernels;
const CodecKernels kAffine6Kernels = PackedKernels<Affine6Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
