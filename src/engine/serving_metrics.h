// Counters and histograms of a serving engine.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "holdfast/serving.h"

namespace holdfast {

// Counts a value in the first bucket that holds it.
void AddTo(Histogram& histogram, double value);

// Thread-safe: counts are added by the stepping thread and by consumers, and read by anyone.
class MetricsLog {
 public:
  MetricsLog();

  void Step(int64_t tokens);
  void Prompt(int64_t tokens);  // of a request that was admitted
  // A token was drawn; seconds since the request came, or since its last token.
  void FirstToken(double seconds);
  void NextToken(double seconds);
  void Finished(FinishReason reason);
  void Refused(int64_t requests);
  void Waiting(int64_t queued, int64_t running);
  ServingMetrics Read() const;

 private:
  mutable std::mutex mutex_;
  ServingMetrics metrics_;
};

}  // namespace holdfast
