// The kernels of aura4, per instruction set.
#include "codec/kernels/aura_table_format.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// A type of this file's own, so that nothing made from it can be shared with another instruction set's.
struct Aura4Format : AuraTableFormat<4> {};

}  // namespace

extern const CodecKernels kAura4Kernels;
const CodecKernels kAura4Kernels = PackedKernels<Aura4Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
