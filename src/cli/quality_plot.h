// A plot of quality against bytes, as a self-contained SVG file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::cli {

struct QualityPoint {
  std::string label;
  int64_t bytes_per_token = 0;
  double kld = 0;  // nats; 0 has no place on a logarithmic axis and is drawn at the axis
};

// Bytes a token to the right, the mean KL divergence upwards on a logarithmic axis; every point labelled, and a
// line through those that no other point beats in both.
std::string QualityPlot(const std::string& title, const std::vector<QualityPoint>& points);

}  // namespace holdfast::cli
