#include "engine/scheme_path.h"

#include <algorithm>
#include <limits>

namespace holdfast {
namespace {

// The next vertex of the lower hull behind choice `from`; saved is 0 where there is none.
PathStep NextVertex(const std::vector<CodecCost>& choices, size_t from) {
  PathStep best;
  best.slope = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < choices.size(); ++c) {
    const int64_t saved = choices[from].bytes - choices[c].bytes;
    if (saved <= 0) continue;
    const double slope = (choices[c].kld - choices[from].kld) / static_cast<double>(saved);
    if (slope < best.slope || (slope == best.slope && saved > best.saved)) {
      best.slope = slope;
      best.codec = c;
      best.saved = saved;
    }
  }
  return best;
}

}  // namespace

std::vector<PathStep> CheapestSteps(const std::vector<std::vector<CodecCost>>& places) {
  std::vector<PathStep> steps;
  for (size_t place = 0; place < places.size(); ++place) {
    double least = -std::numeric_limits<double>::infinity();
    size_t at = 0;
    for (PathStep step = NextVertex(places[place], at); step.saved > 0;
         step = NextVertex(places[place], at)) {
      step.place = place;
      step.slope = least = std::max(least, step.slope);  // rounding must not change a place's own order
      steps.push_back(step);
      at = step.codec;
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const PathStep& a, const PathStep& b) { return a.slope < b.slope; });
  return steps;
}

}  // namespace holdfast
