// aura3: 3-bit codes of the Lloyd-Max codebook of a rotated row's coordinate, one f16 scale a row.
#include "codec/aura_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAura3Kernels)

extern const Codec kAura3Codec;
constinit const Codec kAura3Codec = PackedCodec<AuraFormat<3, AuraTableLevels<3>>>::Describe(
    CodecId::kAura3, "aura3",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAura3Kernels); });

}  // namespace holdfast
