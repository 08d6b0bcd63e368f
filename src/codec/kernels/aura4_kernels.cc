// The kernels of aura4, per instruction set.
#include "codec/kernels/aura_table_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const CodecKernels kAura4Kernels;
const CodecKernels kAura4Kernels = PackedKernels<AuraTableFormat<4>>();

}  // namespace holdfast::HOLDFAST_ISA_NS
