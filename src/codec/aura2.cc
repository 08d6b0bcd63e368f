// aura2: 2-bit codes of the Lloyd-Max codebook of a rotated row's coordinate, one f16 scale a row.
#include "codec/aura_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAura2Kernels)

extern const Codec kAura2Codec;
constinit const Codec kAura2Codec = PackedCodec<AuraFormat<2, AuraTableLevels<2>>>::Describe(
    CodecId::kAura2, "aura2",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAura2Kernels); });

}  // namespace holdfast
