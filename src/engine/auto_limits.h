// The sizes of a calibration, checked and cut to what the model holds.
#pragma once

#include <cstdint>

#include "holdfast/auto_scheme.h"

namespace holdfast {

struct AutoLimits {
  int64_t ranking_tokens = 0, ranking_chunks = 0, context_tokens = 0, held_out_chunks = 0;
  int64_t RankingText() const { return ranking_tokens * ranking_chunks; }
  int64_t TextTokens() const { return RankingText() + context_tokens * held_out_chunks; }
};

// Errors kInvalidArgument, naming option, value and limit.
Result<AutoLimits> AutoLimitsOf(const Engine& engine, const CacheOptions& base, const AutoOptions& options);

}  // namespace holdfast
