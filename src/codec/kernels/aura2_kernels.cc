// The kernels of aura2, per instruction set.
#include "codec/kernels/aura_table_format.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// A type of this file's own, so that nothing made from it can be shared with another instruction set's.
struct Aura2Format : AuraTableFormat<2> {};

}  // namespace

extern const CodecKernels kAura2Kernels;
const CodecKernels kAura2Kernels = PackedKernels<Aura2Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
