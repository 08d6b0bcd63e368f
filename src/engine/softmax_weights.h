// exp over a whole vocabulary, for drawing tokens and for log probabilities.
#pragma once

#include <span>

namespace holdfast {

// weights[i] = exp((logits[i] - top) * scale), within 3e-7 of it, and 0 where the exponent is below -87 or the logit is
// no number. Returns their sum. The same bits on every machine: one order, nothing fused. REQUIRES top to be the largest
// logit, scale > 0 and room for logits.size() weights.
double SoftmaxWeights(std::span<const float> logits, float top, float scale, float* weights);

}  // namespace holdfast
