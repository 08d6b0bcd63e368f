// How much scratch attention may come to hold, for budgets that count it before there is any.
#pragma once

#include <cstdint>
#include <span>

#include "holdfast/cache_config.h"
#include "simd/isa.h"

namespace holdfast {

struct AttentionLimits {
  int threads = 1;
  int64_t tokens = 0;   // of a batch
  int64_t context = 0;  // positions that a query may see at most
};

// What AttentionWorkspace::bytes() never passes, whatever calls of these layers within these limits it serves.
int64_t AttentionScratchLimit(std::span<const LayerConfig> layers, int q_heads, const AttentionLimits& limits,
                              Isa isa);

}  // namespace holdfast
