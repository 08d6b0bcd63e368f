// The kernels of aura3, per instruction set.
#include "codec/kernels/aura_table_format.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const CodecKernels kAura3Kernels;
const CodecKernels kAura3Kernels = PackedKernels<AuraTableFormat<3>>();

}  // namespace holdfast::HOLDFAST_ISA_NS
