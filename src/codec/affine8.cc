// affine8: 8-bit codes between a group's minimum and maximum; a group of 64 dims unless a spec says otherwise.
#include "codec/affine_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAffine8Kernels)

extern const Codec kAffine8Codec;
constinit const Codec kAffine8Codec = PackedCodec<AffineFormat<kAffine8Shape>>::Describe(
    CodecId::kAffine8, "affine8",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAffine8Kernels); });

}  // namespace holdfast
