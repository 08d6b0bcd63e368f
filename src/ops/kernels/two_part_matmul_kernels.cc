// Products of packed integer weights with activations in two int8 parts.
#include "ops/kernels/integer_panels.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const IntegerKernels kTwoPartKernels;
const IntegerKernels kTwoPartKernels = HF_INTEGER_KERNELS(2);

}  // namespace holdfast::HOLDFAST_ISA_NS
