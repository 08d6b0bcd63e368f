// A progress bar on standard error, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace holdfast::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // wipes the bar
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second, and only once the work has taken a quarter of a second.
  void Show(int64_t done, int64_t total);
  void Clear();

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace holdfast::cli
