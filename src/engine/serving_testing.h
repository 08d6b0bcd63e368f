// For tests of serving: loads of requests, and answers to compare bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "holdfast/serving.h"

namespace holdfast {

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<TokenLogprob> logprobs;  // with the top ones of each token after it
  std::string text;
  FinishReason finish = FinishReason::kNone;
  Status error;
  Receipt receipt;
};

// Takes events until the last one.
Answer AnswerOf(ServedRequest& request);
// "" where tokens, log probabilities, text and reason are the same to the bit; else the first difference.
std::string Difference(const Answer& a, const Answer& b);

GenerateOptions GreedyOptions(int64_t max_tokens);

// `count` requests, greedy and seeded in turn, with penalties, cuts and biases among them. Prompts are cut from `text`
// (at least 1000 tokens), up to longest_prompt tokens, and many of them begin alike.
std::vector<ServingRequest> MixedRequests(int count, std::span<const int32_t> text, int64_t longest_prompt,
                                          int64_t longest_answer, uint64_t seed);

struct RunLoadOptions {
  bool one_by_one = false;  // each after the end of the one before
  // > 0: they arrive in an order and at moments of its own. 0: all before the first event is over.
  uint64_t arrival_seed = 0;
};
// The answers, in the order of the requests.
std::vector<Answer> Serve(ServingEngine& serving, std::span<const ServingRequest> requests,
                          const RunLoadOptions& how);

}  // namespace holdfast
