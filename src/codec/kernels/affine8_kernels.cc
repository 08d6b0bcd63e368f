// The kernels of affine8, per instruction set.
#include "codec/kernels/affine_format.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// A type of this file's own, so that nothing made from it can be shared with another instruction set's.
struct Affine8Format : AffineFormat<kAffine8Shape.bits, kAffine8Shape.default_group> {};

}  // namespace

extern const CodecKernels kAffine8Kernels;
const CodecKernels kAffine8Kernels = PackedKernels<Affine8Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
