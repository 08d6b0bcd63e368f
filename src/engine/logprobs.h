// Log probabilities of a model's next token, as clients ask for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/serving.h"

namespace holdfast {

struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending, ties by ascending token
};

// Of the softmax over all of `logits`: before biases, penalties, temperature and cuts. The same bits whoever else is in
// the batch and whatever thread asks. top: the n most probable tokens, 0 for none. weights: scratch. REQUIRES chosen to be
// one of the logits, and one of them to be a number.
TokenLogprobs LogprobsOf(std::span<const float> logits, int32_t chosen, int top, std::vector<float>& weights);

}  // namespace holdfast
