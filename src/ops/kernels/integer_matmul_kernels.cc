// Products of packed integer weights with activations in one int8 part.
#include "ops/kernels/integer_panels.h"

namespace holdfast::HOLDFAST_ISA_NS {

extern const IntegerKernels kIntegerKernels;
const IntegerKernels kIntegerKernels = HF_INTEGER_KERNELS(1);

}  // namespace holdfast::HOLDFAST_ISA_NS
