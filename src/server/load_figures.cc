#include "server/load_figures.h"

#include <algorithm>

namespace holdfast::load {
namespace {

float Ms(int64_t ns) {
  return static_cast<float>(static_cast<double>(ns) * 1e-6);
}

}  // namespace

LatencyFigures LatencyOf(std::vector<float>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto percentile = [&](size_t p) {
    return static_cast<double>(values[(values.size() * p + 99) / 100 - 1]);
  };
  return {.count = static_cast<int64_t>(values.size()),
          .p50 = percentile(50),
          .p99 = percentile(99),
          .max = static_cast<double>(values.back())};
}

void LoadCollector::Add(const AnswerFigures& answer, int64_t arrived_ns, int64_t ended_ns) {
  ++figures_.requests;
  figures_.output_tokens += answer.output_tokens;
  figures_.prompt_tokens += answer.prompt_tokens;
  figures_.cached_tokens += answer.cached_tokens;
  last_end_ns_ = std::max(last_end_ns_, ended_ns);
  if (answer.first_text_ns >= 0) ttft_ms_.push_back(Ms(answer.first_text_ns - arrived_ns));
  gap_ms_.insert(gap_ms_.end(), answer.gaps_ms.begin(), answer.gaps_ms.end());
  request_ms_.push_back(Ms(ended_ns - arrived_ns));
}

void LoadCollector::AddError(const std::string& message, int64_t ended_ns) {
  ++figures_.requests;
  ++figures_.errors;
  last_end_ns_ = std::max(last_end_ns_, ended_ns);
  std::vector<std::string>& messages = figures_.error_messages;
  if (messages.size() < kMaxMessages &&
      std::find(messages.begin(), messages.end(), message) == messages.end()) {
    messages.push_back(message);
  }
}

LoadFigures LoadCollector::Figures() const {
  LoadFigures figures = figures_;
  figures.seconds = static_cast<double>(last_end_ns_) * 1e-9;
  if (figures.seconds > 0)
    figures.output_tokens_per_s = static_cast<double>(figures.output_tokens) / figures.seconds;
  std::vector<float> ttft = ttft_ms_, gaps = gap_ms_, whole = request_ms_;
  figures.ttft_ms = LatencyOf(ttft);
  figures.gap_ms = LatencyOf(gaps);
  figures.request_ms = LatencyOf(whole);
  return figures;
}

}  // namespace holdfast::load
