// From what every codec costs in every place to an order of saving bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace holdfast {

// One codec in one place (a side of a layer).
struct CodecCost {
  int64_t bytes = 0;  // a token
  double kld = 0;     // predicted, >= 0
};

struct PathStep {
  size_t place = 0;
  size_t codec = 0;   // from now on
  double slope = 0;   // divergence a byte saved
  int64_t saved = 0;  // bytes, > 0
};

// places[i]: the choices of place i, of which [i][0] is where it starts. The steps in the order in which they are to be
// taken: the lower convex hull of every place (choices above it are never worth it), all merged by slope. After any
// number of steps no other choice of as many bytes predicts less divergence, but for the last step's size.
std::vector<PathStep> CheapestSteps(const std::vector<std::vector<CodecCost>>& places);

}  // namespace holdfast
