#include "engine/serving_metrics.h"

#include <algorithm>

namespace holdfast {
namespace {

Histogram Buckets(std::vector<double> bounds) {
  Histogram histogram;
  histogram.counts.resize(bounds.size() + 1);
  histogram.bounds = std::move(bounds);
  return histogram;
}

}  // namespace

void AddTo(Histogram& histogram, double value) {
  const auto bucket = std::lower_bound(histogram.bounds.begin(), histogram.bounds.end(), value);
  ++histogram.counts[static_cast<size_t>(bucket - histogram.bounds.begin())];
  histogram.sum += value;
}

MetricsLog::MetricsLog() {
  metrics_.batch_tokens = Buckets({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048});
  metrics_.ttft_seconds =
      Buckets({0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 40, 80});
  metrics_.token_gap_seconds = Buckets(
      {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 5, 10});
}

void MetricsLog::Step(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  ++metrics_.steps;
  AddTo(metrics_.batch_tokens, static_cast<double>(tokens));
}

void MetricsLog::Prompt(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  metrics_.prompt_tokens += tokens;
}

void MetricsLog::FirstToken(double seconds) {
  const std::lock_guard lock(mutex_);
  ++metrics_.generated_tokens;
  AddTo(metrics_.ttft_seconds, seconds);
}

void MetricsLog::NextToken(double seconds) {
  const std::lock_guard lock(mutex_);
  ++metrics_.generated_tokens;
  AddTo(metrics_.token_gap_seconds, seconds);
}

void MetricsLog::Finished(FinishReason reason) {
  const std::lock_guard lock(mutex_);
  ++metrics_.requests_finished[static_cast<size_t>(reason)];
}

void MetricsLog::Refused(int64_t requests) {
  const std::lock_guard lock(mutex_);
  metrics_.requests_refused += requests;
}

void MetricsLog::Waiting(int64_t queued, int64_t running) {
  const std::lock_guard lock(mutex_);
  metrics_.queued = queued;
  metrics_.running = running;
}

ServingMetrics MetricsLog::Read() const {
  const std::lock_guard lock(mutex_);
  return metrics_;
}

}  // namespace holdfast
