// The figures of a generation, for people and as JSON.
#pragma once

#include <string>

#include "cli/options.h"

namespace holdfast::cli {

struct Figures {
  GenerationStats stats;
  double load_ms = 0;
  FinishReason finish = FinishReason::kNone;
};

Json UsageJson(const GenerationStats& stats);
Json TimingsJson(const Figures& figures);
Json CacheJson(const GenerationStats& stats);
// One or two lines on standard error.
void PrintFigures(const Figures& figures);

}  // namespace holdfast::cli
