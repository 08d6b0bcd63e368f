// What a cache scheme costs: perplexity on the user's own text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "holdfast/engine.h"

namespace holdfast {

struct PerplexityOptions {
  int64_t context_tokens = 512;
  int64_t chunks = 0;  // 0: as many as the text has
  int batch_tokens = 512;
  std::function<void(int64_t chunk, int64_t chunks, double perplexity_so_far)> progress;
};

struct PerplexityResult {
  double perplexity = 0, nll = 0, nll_stderr = 0;
  int64_t chunks = 0, targets = 0;
  int64_t bytes_per_token = 0;
};

// llama.cpp's convention: the text's tokens are cut into non-overlapping chunks of context_tokens from the
// start, the first token of each replaced by BOS where the model adds one, and positions context/2 ..
// context-2 of each predict their successor (context/2 - 1 targets). Errors: kInvalidArgument (fewer tokens
// than one chunk: names both).
Result<PerplexityResult> Perplexity(Engine& engine, std::span<const int32_t> tokens,
                                    const CacheOptions& cache, const PerplexityOptions& options);

}  // namespace holdfast
