// A plain loop that reads memory, as fast as the instruction set can: what decode attention is measured
// against.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.h"

namespace holdfast {

struct ReadLoopKernels {
  // XOR of all bytes of [p, p + bytes), so that no load can be left out.
  uint32_t (*read)(const std::byte* p, int64_t bytes);
};
HOLDFAST_DECLARE_KERNELS(ReadLoopKernels, kReadLoopKernels)

}  // namespace holdfast
