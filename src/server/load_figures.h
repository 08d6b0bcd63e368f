// The figures of many streamed answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/load_generator.h"
#include "server/load_answer.h"

namespace holdfast::load {

// Sorts `values`. The p-th percentile is the value of rank ceil(p / 100 * n).
LatencyFigures LatencyOf(std::vector<float>& values);

// Not thread-safe.
class LoadCollector {
 public:
  // Times are of one clock; the figures' first text too.
  void Add(const AnswerFigures& answer, int64_t arrived_ns, int64_t ended_ns);
  void AddError(const std::string& message, int64_t ended_ns);
  int64_t requests() const { return figures_.requests; }
  // `seconds` is the latest end, on a clock that began with the first request.
  LoadFigures Figures() const;

 private:
  static constexpr size_t kMaxMessages = 8;

  LoadFigures figures_;
  int64_t last_end_ns_ = 0;
  std::vector<float> ttft_ms_, gap_ms_, request_ms_;
};

}  // namespace holdfast::load
