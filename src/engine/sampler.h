// From logits to a token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/engine.h"

namespace holdfast {

// Checks every option; the message names option, value and limit. vocab_size: of the model, for tokens with a bias;
// 0: not known.
Status ValidateSampling(const SamplingOptions& options, int64_t vocab_size);

// What a token is drawn after: all tokens of the context so far, newest last.
struct TokenHistory {
  std::span<const int32_t> tokens;
  size_t answer_tokens = 0;  // the last so many of them were generated
};

// Memory that drawing takes; whatever number of samplers share it, one at a time.
class SamplerScratch {
 public:
  // Room for any draw from so many logits, so that none allocates. May throw std::bad_alloc.
  void Reserve(int64_t vocab_size);
  int64_t bytes() const;
  std::vector<float>& weights() { return weights_; }  // between draws anyone's

  struct Candidate {
    int32_t token;
    float logit;
    double weight;
  };

 private:
  friend class Sampler;
  std::vector<float> adjusted_;
  std::vector<float> weights_;
  std::vector<Candidate> candidates_;  // descending logit, ties by ascending token
};

// One generation's sampler: options and random state. The same seed and logits give the same tokens on every machine:
// the generator is SplitMix64 (Steele, Lea & Flood 2014), not the standard library's. Copyable, so that a fork goes on
// as its origin would have.
class Sampler {
 public:
  // REQUIRES ValidateSampling(options).ok().
  explicit Sampler(const SamplingOptions& options);

  // Error kDataLoss where no logit is a number: a silent wrong token would be worse.
  Result<int32_t> Sample(std::span<const float> logits, const TokenHistory& history, SamplerScratch& scratch);

 private:
  using Candidates = std::vector<SamplerScratch::Candidate>;

  double NextUniform();  // [0, 1)
  bool AdjustsLogits() const;
  void Adjust(const TokenHistory& history, std::span<float> logits) const;
  void PenalizeRepetition(std::span<const int32_t> history, std::span<float> logits) const;
  void PenalizeAnswer(std::span<const int32_t> answer, std::span<float> logits) const;
  int32_t DrawFromAll(std::span<const float> logits, float top, SamplerScratch& scratch);
  void KeepTopK(std::span<const float> logits, Candidates& kept) const;
  void KeepTopP(std::span<const float> logits, float top, SamplerScratch& scratch) const;
  void KeepMinP(Candidates& kept) const;
  int32_t Draw(Candidates& kept);

  SamplingOptions options_;
  uint64_t state_;
};

}  // namespace holdfast
