// A plot of a trace's hit rate against the budget, as a self-contained SVG file.
#pragma once

#include <string>
#include <vector>

#include "holdfast/replay.h"

namespace holdfast::cli {

// Budgets to the right on a logarithmic axis, the share of prompt tokens that was reused upwards; a dashed line is what
// no limit gives. bytes_per_token: 0: not known.
std::string ReplayPlot(const std::string& title, const std::vector<ReplayCell>& cells,
                       int64_t bytes_per_token);

}  // namespace holdfast::cli
