// aura4: 4-bit codes of the Lloyd-Max codebook of a rotated row's coordinate, one f16 scale a row.
#include "codec/aura_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAura4Kernels)

extern const Codec kAura4Codec;
constinit const Codec kAura4Codec = PackedCodec<AuraFormat<4, AuraTableLevels<4>>>::Describe(
    CodecId::kAura4, "aura4",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAura4Kernels); });

}  // namespace holdfast
