// The kernels of aura3, per instruction set.
#include "codec/kernels/aura_table_format.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// A type of this file's own, so that nothing made from it can be shared with another instruction set's.
struct Aura3Format : AuraTableFormat<3> {};

}  // namespace

extern const CodecKernels kAura3Kernels;
const CodecKernels kAura3Kernels = PackedKernels<Aura3Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
