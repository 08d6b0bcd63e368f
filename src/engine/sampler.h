// From logits to a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/engine.h"

namespace holdfast {

// Checks every option; the message names option, value and limit.
Status ValidateSampling(const SamplingOptions& options);

// One generation's sampler: options, random state and scratch. The same seed and logits give the same tokens
// on every machine: the generator is SplitMix64 (Steele, Lea & Flood 2014), not the standard library's.
// Copyable, so that a fork goes on as its origin would have.
class Sampler {
 public:
  // REQUIRES ValidateSampling(options).ok().
  explicit Sampler(const SamplingOptions& options);

  // history: all tokens of the context so far, newest last (repetition penalty). Error kDataLoss where no
  // logit is a number: a silent wrong token would be worse.
  Result<int32_t> Sample(std::span<const float> logits, std::span<const int32_t> history);

 private:
  struct Candidate {
    int32_t token;
    float logit;
    double weight;
  };
  double NextUniform();  // [0, 1)
  void PenalizeRepetition(std::span<const int32_t> history);
  void KeepTopK(std::span<const float> logits);
  void KeepTopP();
  void KeepMinP();
  int32_t Draw();

  SamplingOptions options_;
  uint64_t state_;
  std::vector<float> penalized_;
  std::vector<Candidate> candidates_;  // descending logit, ties by ascending token
};

}  // namespace holdfast
