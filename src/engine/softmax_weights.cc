#include "engine/softmax_weights.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace holdfast {
namespace {

constexpr float kLeast = -87.0f;  // exp of less is not a normal float
constexpr size_t kLanes = 8;      // sums side by side, so that additions need not wait for each other

// exp(x) for x in [kLeast, 0]: Cephes' expf (Moshier), x = n ln 2 + r with ln 2 in two parts. No call and no branch, so
// that compilers make vectors of it; the library's exp takes ten times as long over a vocabulary.
inline float Exp(float x) {
  const auto n = static_cast<int32_t>(x * 1.44269504088896341f - 0.5f);
  const auto whole = static_cast<float>(n);
  const float r = x - whole * 0.693359375f - whole * -2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  return y * std::bit_cast<float>((n + 127) << 23);
}

inline float Weight(float logit, float top, float scale) {
  const float x = (logit - top) * scale;
  const bool counts = x >= kLeast;  // false for what is no number
  const float bounded = counts ? x : kLeast;
  const float weight = Exp(bounded < 0.0f ? bounded : 0.0f);
  return counts ? weight : 0.0f;
}

}  // namespace

double SoftmaxWeights(std::span<const float> logits, float top, float scale, float* weights) {
  for (size_t i = 0; i < logits.size(); ++i) weights[i] = Weight(logits[i], top, scale);
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(weights[i + lane]);
  }
  for (; i < logits.size(); ++i) sums[0] += static_cast<double>(weights[i]);
  double sum = 0.0;
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace holdfast
