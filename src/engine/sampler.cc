#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/softmax_weights.h"

namespace holdfast {
namespace {

using Candidate = SamplerScratch::Candidate;

Status OutOfBounds(const std::string& option, double value, const std::string& limit) {
  return InvalidArgument("sampling: " + option + " is " + std::to_string(value) + ", must be " + limit);
}

bool Before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
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

Status ValidateBiases(const std::vector<LogitBias>& biases, int64_t vocab_size) {
  if (biases.size() > static_cast<size_t>(kMaxLogitBiases)) {
    return InvalidArgument("sampling: logit_bias has " + std::to_string(biases.size()) +
                           " entries, at most " + std::to_string(kMaxLogitBiases));
  }
  for (const LogitBias& bias : biases) {
    const std::string name = "logit_bias of token " + std::to_string(bias.token);
    if (!(bias.bias >= -100.0f && bias.bias <= 100.0f)) return OutOfBounds(name, bias.bias, "in [-100, 100]");
    if (bias.token < 0 || (vocab_size > 0 && bias.token >= vocab_size)) {
      return InvalidArgument("sampling: " + name + ": the vocabulary has " + std::to_string(vocab_size));
    }
  }
  return OkStatus();
}

// Every token with a logit of at least `floor`, in order.
void Collect(std::span<const float> logits, const std::vector<float>& weights, float floor,
             std::vector<Candidate>& kept) {
  kept.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] >= floor)) continue;
    kept.push_back({static_cast<int32_t>(i), logits[i], static_cast<double>(weights[i])});
  }
  std::sort(kept.begin(), kept.end(), Before);
}

}  // namespace

Status ValidateSampling(const SamplingOptions& o, int64_t vocab_size) {
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
  if (!(std::fabs(o.presence_penalty) <= 2.0f)) {
    return OutOfBounds("presence_penalty", o.presence_penalty, "in [-2, 2]");
  }
  if (!(std::fabs(o.frequency_penalty) <= 2.0f)) {
    return OutOfBounds("frequency_penalty", o.frequency_penalty, "in [-2, 2]");
  }
  return ValidateBiases(o.logit_bias, vocab_size);
}

void SamplerScratch::Reserve(int64_t vocab_size) {
  const auto n = static_cast<size_t>(vocab_size);
  adjusted_.reserve(n);
  weights_.reserve(n);
  candidates_.reserve(n);
}

int64_t SamplerScratch::bytes() const {
  return static_cast<int64_t>((adjusted_.capacity() + weights_.capacity()) * sizeof(float) +
                              candidates_.capacity() * sizeof(Candidate));
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

bool Sampler::AdjustsLogits() const {
  return !options_.logit_bias.empty() || options_.repeat_penalty != 1.0f ||
         options_.presence_penalty != 0.0f || options_.frequency_penalty != 0.0f;
}

void Sampler::Adjust(const TokenHistory& history, std::span<float> logits) const {
  for (const LogitBias& bias : options_.logit_bias) {
    if (static_cast<size_t>(bias.token) < logits.size()) logits[static_cast<size_t>(bias.token)] += bias.bias;
  }
  if (options_.repeat_penalty != 1.0f) PenalizeRepetition(history.tokens, logits);
  if (options_.presence_penalty != 0.0f || options_.frequency_penalty != 0.0f) {
    PenalizeAnswer(history.tokens.last(std::min(history.answer_tokens, history.tokens.size())), logits);
  }
}

// Keskar et al. 2019 (CTRL): a seen token's logit is divided by the penalty if positive, multiplied if
// negative; once however often it was seen.
void Sampler::PenalizeRepetition(std::span<const int32_t> history, std::span<float> logits) const {
  size_t count = history.size();
  if (options_.repeat_last_n >= 0) count = std::min(count, static_cast<size_t>(options_.repeat_last_n));
  std::vector<int32_t> seen(history.end() - static_cast<std::ptrdiff_t>(count), history.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (int32_t token : seen) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0.0f ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

// OpenAI's API reference, "frequency and presence penalties": mu[j] - c[j] * frequency - (c[j] > 0) * presence, c[j] being
// how often the answer has token j.
void Sampler::PenalizeAnswer(std::span<const int32_t> answer, std::span<float> logits) const {
  std::vector<int32_t> sorted(answer.begin(), answer.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t first = 0; first < sorted.size();) {
    const int32_t token = sorted[first];
    size_t end = first;
    while (end < sorted.size() && sorted[end] == token) ++end;
    if (token >= 0 && static_cast<size_t>(token) < logits.size()) {
      logits[static_cast<size_t>(token)] -=
          static_cast<float>(end - first) * options_.frequency_penalty + options_.presence_penalty;
    }
    first = end;
  }
}

int32_t Sampler::DrawFromAll(std::span<const float> logits, float top, SamplerScratch& scratch) {
  std::vector<float>& weights = scratch.weights_;
  weights.resize(logits.size());
  const float scale = std::min(1.0f / options_.temperature, 1e30f);  // finite: 0 * infinity is no number
  const double total = SoftmaxWeights(logits, top, scale, weights.data());
  double left = NextUniform() * total;
  int32_t last = -1;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0f) continue;
    last = static_cast<int32_t>(i);
    left -= static_cast<double>(weights[i]);
    if (left < 0.0) break;
  }
  return last;
}

// The k largest: a heap of the best so far, whose worst one nearly every token fails against.
void Sampler::KeepTopK(std::span<const float> logits, Candidates& kept) const {
  const auto k = static_cast<size_t>(options_.top_k);
  kept.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) continue;
    const Candidate candidate = {static_cast<int32_t>(i), logits[i], 0.0};
    if (kept.size() == k) {
      if (!Before(candidate, kept.front())) continue;
      std::pop_heap(kept.begin(), kept.end(), Before);
      kept.pop_back();
    }
    kept.push_back(candidate);
    std::push_heap(kept.begin(), kept.end(), Before);
  }
  std::sort(kept.begin(), kept.end(), Before);
  const double top = static_cast<double>(kept.front().logit);
  for (Candidate& c : kept) c.weight = std::exp(static_cast<double>(c.logit) - top);
}

// Holtzman et al. 2020: the fewest most likely tokens whose probability reaches top_p; of the top-k where there are such,
// else of all tokens, of which only those near the top are ordered if they suffice.
void Sampler::KeepTopP(std::span<const float> logits, float top, SamplerScratch& scratch) const {
  Candidates& kept = scratch.candidates_;
  double total = 0.0;
  if (options_.top_k > 0) {
    for (const Candidate& c : kept) total += c.weight;
  } else {
    scratch.weights_.resize(logits.size());
    total = SoftmaxWeights(logits, top, 1.0f, scratch.weights_.data());
  }
  const double wanted = static_cast<double>(options_.top_p) * total;
  constexpr float kAll = std::numeric_limits<float>::infinity();
  for (float below = options_.top_k > 0 ? kAll : 6.0f;; below = below < 40.0f ? 3.0f * below : kAll) {
    if (options_.top_k == 0) Collect(logits, scratch.weights_, top - below, kept);
    double sum = 0.0;
    for (size_t i = 0; i < kept.size(); ++i) {
      sum += kept[i].weight;
      if (sum < wanted) continue;
      kept.resize(i + 1);
      return;
    }
    if (below == kAll) return;
  }
}

// Nguyen et al. 2024: tokens at least min_p times as likely as the likeliest.
void Sampler::KeepMinP(Candidates& kept) const {
  if (options_.min_p <= 0.0f) return;
  const auto below = std::find_if(kept.begin(), kept.end(), [this](const Candidate& c) {
    return c.weight < static_cast<double>(options_.min_p);
  });
  kept.erase(below == kept.begin() ? below + 1 : below, kept.end());
}

int32_t Sampler::Draw(Candidates& kept) {
  const double top = static_cast<double>(kept.front().logit);
  double total = 0.0;
  for (Candidate& c : kept) {
    c.weight = std::exp((static_cast<double>(c.logit) - top) / static_cast<double>(options_.temperature));
    total += c.weight;
  }
  double left = NextUniform() * total;
  for (const Candidate& c : kept) {
    left -= c.weight;
    if (left < 0.0) return c.token;
  }
  return kept.back().token;
}

Result<int32_t> Sampler::Sample(std::span<const float> logits, const TokenHistory& history,
                                SamplerScratch& scratch) {
  std::span<const float> effective = logits;
  if (AdjustsLogits()) {
    scratch.adjusted_.assign(logits.begin(), logits.end());
    Adjust(history, scratch.adjusted_);
    effective = scratch.adjusted_;
  }
  const int32_t best = ArgMax(effective);
  if (best < 0 || std::isinf(effective[static_cast<size_t>(best)])) {
    return DataLoss("sample: the largest of " + std::to_string(logits.size()) +
                    " logits is not a finite number");
  }
  if (options_.temperature == 0.0f) return best;
  const float top = effective[static_cast<size_t>(best)];
  Candidates& kept = scratch.candidates_;
  if (options_.top_k > 0) {
    KeepTopK(effective, kept);
  } else if (options_.top_p >= 1.0f) {
    if (options_.min_p <= 0.0f) return DrawFromAll(effective, top, scratch);
    scratch.weights_.resize(effective.size());
    SoftmaxWeights(effective, top, 1.0f, scratch.weights_.data());
    // A little lower than where min_p cuts, for what the logarithm rounds away.
    Collect(effective, scratch.weights_, top + std::log(options_.min_p) - 0.01f, kept);
  }
  if (options_.top_p < 1.0f) KeepTopP(effective, top, scratch);
  KeepMinP(kept);
  return Draw(kept);
}

}  // namespace holdfast
