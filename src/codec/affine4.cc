// affine4: 4-bit codes between a group's minimum and maximum; a group of 32 dims unless a spec says otherwise.
#include "codec/affine_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAffine4Kernels)

extern const Codec kAffine4Codec;
constinit const Codec kAffine4Codec = PackedCodec<AffineFormat<kAffine4Shape>>::Describe(
    CodecId::kAffine4, "affine4",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAffine4Kernels); });

}  // namespace holdfast
