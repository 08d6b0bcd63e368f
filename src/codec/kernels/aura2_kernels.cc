// The kernels of aura2, per instruction set.
#include "codec/kernels/aura_table_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const CodecKernels kAura2Kernels;
const CodecKernels kAura2Kernels = PackedKernels<AuraTableFormat<2>>();

}  // namespace holdfast::HOLDFAST_ISA_NS
