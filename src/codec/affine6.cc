// affine6: 6-bit codes between a group's minimum and maximum; a group of 64 dims unless a spec says otherwise.
#include "codec/affine_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAffine6Kernels)

extern const Codec kAffine6Codec;
constinit const Codec kAffine6Codec = PackedCodec<AffineFormat<kAffine6Shape>>::Describe(
    CodecId::kAffine6, "affine6",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAffine6Kernels); });

}  // namespace holdfast
