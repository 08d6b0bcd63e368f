// Timing of benchmarks.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace holdfast {

// Nanoseconds that `work` takes.
template <typename F>
double TimeNs(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// REQUIRES at least one sample.
inline double Median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace holdfast
