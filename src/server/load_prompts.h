// Prompts of about so many tokens, and when they arrive: a function of the seed alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/request_trace.h"

namespace holdfast::load {

// Independent sources of words; the values are part of what a seed means.
enum class PromptStream : uint64_t { kCalibration = 1, kShared, kOwn, kBlock, kArrivals };

// Appends `count` words, each with a space before it unless the text is empty.
void AppendWords(std::string& text, uint64_t seed, PromptStream stream, uint64_t number, int64_t count);

// What a server's tokenizer is asked about, to learn how many tokens a word has.
std::string CalibrationText(int64_t words);

class PromptMaker {
 public:
  // REQUIRES: tokens_per_word > 0.
  PromptMaker(uint64_t seed, double tokens_per_word) : seed_(seed), tokens_per_word_(tokens_per_word) {}

  // Prompts of different `index` share their first `shared_tokens` and differ after them.
  std::string Prompt(int64_t index, int64_t tokens, int64_t shared_tokens) const;
  // Equal hash ids are equal text. Only the first `max_tokens`; 0: all.
  std::string Prompt(const TraceRequest& request, int64_t max_tokens) const;

 private:
  int64_t Words(int64_t tokens) const;

  uint64_t seed_;
  double tokens_per_word_;
};

// When each request arrives, in ns; the first at 0, the others after independent exponential times. REQUIRES: rate > 0.
std::vector<int64_t> PoissonArrivals(uint64_t seed, int64_t requests, double rate_per_s);

}  // namespace holdfast::load
