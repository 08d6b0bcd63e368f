#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/softmax_weights.h"

namespace holdfast {
namespace {

// While they are chosen, logits stand in for log probabilities.
bool Before(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
}

std::vector<TokenLogprob> Largest(std::span<const float> logits, size_t n) {
  std::vector<TokenLogprob> heap;  // its front is the smallest of them
  heap.reserve(n + 1);
  for (size_t i = 0; i < logits.size() && n > 0; ++i) {
    if (std::isnan(logits[i])) continue;
    const TokenLogprob candidate = {static_cast<int32_t>(i), logits[i]};
    if (heap.size() == n && !Before(candidate, heap.front())) continue;
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), Before);
    if (heap.size() <= n) continue;
    std::pop_heap(heap.begin(), heap.end(), Before);
    heap.pop_back();
  }
  std::sort_heap(heap.begin(), heap.end(), Before);
  return heap;
}

}  // namespace

TokenLogprobs LogprobsOf(std::span<const float> logits, int32_t chosen, int top,
                         std::vector<float>& weights) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) largest = logit > largest ? logit : largest;
  weights.resize(logits.size());
  const double log_sum = std::log(SoftmaxWeights(logits, largest, 1.0f, weights.data()));
  const auto log_probability = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(largest) - log_sum);
  };
  TokenLogprobs result;
  result.chosen = {chosen, log_probability(logits[static_cast<size_t>(chosen)])};
  result.top = Largest(logits, static_cast<size_t>(std::max(top, 0)));
  for (TokenLogprob& one : result.top) one.logprob = log_probability(one.logprob);
  return result;
}

}  // namespace holdfast
