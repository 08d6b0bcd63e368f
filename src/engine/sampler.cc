#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace holdfast {
namespace {

Status OutOfBounds(const char* option, double value, const char* limit) {
  return InvalidArgument("sampling: " + std::string(option) + " is " + std::to_string(value) + ", must be " +
                         limit);
}

bool Before(float logit_a, int32_t token_a, float logit_b, int32_t token_b) {
  return logit_a > logit_b || (logit_a == logit_b && token_a < token_b);
}

// The first of the largest logits; -1 where none is a number.
int32_t ArgMax(std::span<const float> logits) {
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) continue;
    if (best < 0 || logits[i] > logits[static_cast<size_t>(best)]) best = static_cast<int32_t>(i);
  }
  return best;
}

}  // namespace

Status ValidateSampling(const SamplingOptions& o) {
  if (!(o.temperature >= 0.0f) || !std::isfinite(o.temperature)) {
    return OutOfBounds("temperature", o.temperature, "finite and >= 0");
  }
  if (o.top_k < 0) return OutOfBounds("top_k", o.top_k, ">= 0");
  if (!(o.top_p > 0.0f && o.top_p <= 1.0f)) return OutOfBounds("top_p", o.top_p, "in (0, 1]");
  if (!(o.min_p >= 0.0f && o.min_p <= 1.0f)) return OutOfBounds("min_p", o.min_p, "in [0, 1]");
  if (!(o.repeat_penalty > 0.0f) || !std::isfinite(o.repeat_penalty)) {
    return OutOfBounds("repeat_penalty", o.repeat_penalty, "finite and > 0");
  }
  if (o.repeat_last_n < -1) return OutOfBounds("repeat_last_n", o.repeat_last_n, ">= -1");
  return OkStatus();
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), state_(options.seed) {}

double Sampler::NextUniform() {
  state_ += 0x9e3779b97f4a7c15ull;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

// Keskar et al. 2019 (CTRL): a seen token's logit is divided by the penalty if positive, multiplied if
// negative; once however often it was seen.
void Sampler::PenalizeRepetition(std::span<const int32_t> history) {
  size_t count = history.size();
  if (options_.repeat_last_n >= 0) count = std::min(count, static_cast<size_t>(options_.repeat_last_n));
  std::vector<int32_t> seen(history.end() - static_cast<std::ptrdiff_t>(count), history.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (int32_t token : seen) {
    if (token < 0 || static_cast<size_t>(token) >= penalized_.size()) continue;
    float& logit = penalized_[static_cast<size_t>(token)];
    logit = logit > 0.0f ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

void Sampler::KeepTopK(std::span<const float> logits) {
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) candidates_.push_back({static_cast<int32_t>(i), logits[i], 0.0});
  }
  const auto order = [](const Candidate& a, const Candidate& b) {
    return Before(a.logit, a.token, b.logit, b.token);
  };
  const auto k = static_cast<size_t>(options_.top_k);
  if (k > 0 && k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k),
                     candidates_.end(), order);
    candidates_.resize(k);
  }
  std::sort(candidates_.begin(), candidates_.end(), order);
  const double top = candidates_.empty() ? 0.0 : static_cast<double>(candidates_.front().logit);
  for (Candidate& c : candidates_) c.weight = std::exp(static_cast<double>(c.logit) - top);
}

// Holtzman et al. 2020: the fewest most likely tokens whose probability reaches top_p.
void Sampler::KeepTopP() {
  if (options_.top_p >= 1.0f) return;
  double total = 0.0;
  for (const Candidate& c : candidates_) total += c.weight;
  double sum = 0.0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    sum += candidates_[i].weight;
    if (sum >= static_cast<double>(options_.top_p) * total) {
      candidates_.resize(i + 1);
      return;
    }
  }
}

// Nguyen et al. 2024: tokens at least min_p times as likely as the likeliest.
void Sampler::KeepMinP() {
  if (options_.min_p <= 0.0f) return;
  const auto below = std::find_if(candidates_.begin(), candidates_.end(), [this](const Candidate& c) {
    return c.weight < static_cast<double>(options_.min_p);
  });
  candidates_.erase(below == candidates_.begin() ? below + 1 : below, candidates_.end());
}

int32_t Sampler::Draw() {
  const double top = static_cast<double>(candidates_.front().logit);
  double total = 0.0;
  for (Candidate& c : candidates_) {
    c.weight = std::exp((static_cast<double>(c.logit) - top) / static_cast<double>(options_.temperature));
    total += c.weight;
  }
  double left = NextUniform() * total;
  for (const Candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0.0) return c.token;
  }
  return candidates_.back().token;
}

Result<int32_t> Sampler::Sample(std::span<const float> logits, std::span<const int32_t> history) {
  std::span<const float> effective = logits;
  if (options_.repeat_penalty != 1.0f) {
    penalized_.assign(logits.begin(), logits.end());
    PenalizeRepetition(history);
    effective = penalized_;
  }
  const int32_t best = ArgMax(effective);
  if (best < 0 || std::isinf(effective[static_cast<size_t>(best)])) {
    return DataLoss("sample: the largest of " + std::to_string(logits.size()) +
                    " logits is not a finite number");
  }
  if (options_.temperature == 0.0f) return best;
  KeepTopK(effective);
  KeepTopP();
  KeepMinP();
  return Draw();
}

}  // namespace holdfast
