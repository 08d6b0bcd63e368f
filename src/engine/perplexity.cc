#include <algorithm>
#include <cmath>
#include <string>

#include "base/status_macros.h"
#include "holdfast/eval.h"

namespace holdfast {
namespace {

// -log softmax(logits)[target], summed in double.
double NegativeLogLikelihood(const float* logits, int64_t vocab, int32_t target) {
  float top = logits[0];
  for (int64_t i = 1; i < vocab; ++i) top = std::max(top, logits[i]);
  double sum = 0.0;
  for (int64_t i = 0; i < vocab; ++i) sum += static_cast<double>(std::exp(logits[i] - top));
  return std::log(sum) - (static_cast<double>(logits[target]) - static_cast<double>(top));
}

}  // namespace

Result<PerplexityResult> Perplexity(Engine& engine, std::span<const int32_t> tokens,
                                    const CacheOptions& cache, const PerplexityOptions& options) {
  const int64_t n = options.context_tokens;
  if (n < 4) return InvalidArgument("perplexity: context_tokens is " + std::to_string(n) + ", must be >= 4");
  if (options.chunks < 0) {
    return InvalidArgument("perplexity: chunks is " + std::to_string(options.chunks) + ", must be >= 0");
  }
  const int64_t available = static_cast<int64_t>(tokens.size()) / n;
  if (available == 0) {
    return InvalidArgument("perplexity: the text has " + std::to_string(tokens.size()) +
                           " tokens, one chunk needs " + std::to_string(n));
  }
  PerplexityResult result;
  result.chunks = options.chunks == 0 ? available : std::min(available, options.chunks);
  HF_ASSIGN_OR_RETURN(const CacheConfig config, engine.MakeCacheConfig(cache));
  for (const LayerConfig& layer : config.layers) {
    HF_ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(layer));
    result.bytes_per_token += row_bytes;
  }
  const int64_t vocab = engine.info().vocab_size;
  const int64_t first = n / 2;
  double sum = 0.0, sum_of_squares = 0.0;
  for (int64_t c = 0; c < result.chunks; ++c) {
    const auto source = tokens.subspan(static_cast<size_t>(c * n), static_cast<size_t>(n));
    std::vector<int32_t> chunk(source.begin(), source.end());
    if (engine.adds_bos()) chunk[0] = engine.bos_token();
    LogitsOptions how;
    how.batch_tokens = options.batch_tokens;
    how.last_n = n - first;
    HF_RETURN_IF_ERROR(
        engine.Logits(chunk, cache, how, [&](int64_t position, int64_t count, const float* logits) {
          for (int64_t i = 0; i < count; ++i) {
            if (position + i + 1 >= n) break;
            const double nll = NegativeLogLikelihood(logits + i * vocab, vocab,
                                                     source[static_cast<size_t>(position + i + 1)]);
            sum += nll;
            sum_of_squares += nll * nll;
            ++result.targets;
          }
        }));
    result.nll = sum / static_cast<double>(result.targets);
    result.perplexity = std::exp(result.nll);
    if (options.progress) options.progress(c + 1, result.chunks, result.perplexity);
  }
  const auto count = static_cast<double>(result.targets);
  const double variance = sum_of_squares / count - result.nll * result.nll;
  result.nll_stderr = std::sqrt(std::max(0.0, variance) / std::max(1.0, count - 1.0));
  return result;
}

}  // namespace holdfast
