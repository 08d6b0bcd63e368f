// The kernels of affine4, per instruction set.
#include "codec/kernels/affine_format.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// A type of this file's own, so that nothing made from it can be shared with another instruction set's.
struct Affine4Format : AffineFormat<kAffine4Shape.bits, kAffine4Shape.default_group> {};

}  // namespace

extern const CodecKernels kAffine4Kernels;
const CodecKernels kAffine4Kernels = PackedKernels<Affine4Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
