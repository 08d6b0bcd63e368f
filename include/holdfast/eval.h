// What cache schemes cost in quality, measured on the user's own text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/engine.h"

namespace holdfast {

struct EvalOptions {
  int64_t context_tokens = 512;
  int64_t chunks = 0;  // 0: as many as the text has
  int batch_tokens = 512;
  // Feed the text's last targets one at a time and time them; false: decode_tokens_per_s is 0, nothing else changes.
  bool time_decode = true;
  std::function<void(int64_t done_tokens, int64_t total_tokens)> progress;  // tokens of all schemes together
};

// One scheme over all chunks. A target is a position whose successor is predicted. Natural logarithms.
struct SchemeQuality {
  int64_t chunks = 0, targets = 0;
  double perplexity = 0, nll = 0, nll_stderr = 0;  // of the text's own tokens
  // KL(reference || scheme) of the whole next-token distribution, over targets; p99 interpolates between
  // ranks. same_top: share of targets where both have the same most likely token (the first of equals).
  double kld_mean = 0, kld_stderr = 0, kld_p99 = 0, kld_max = 0, same_top = 1;
  int64_t bytes_per_token = 0;
  // One token at a time behind the last chunk: the median of its last targets, at most 24.
  double decode_tokens_per_s = 0;
};

struct QualityReport {
  SchemeQuality reference;             // divergences from itself: 0
  std::vector<SchemeQuality> schemes;  // in the order given
};

// Runs the text through every scheme side by side. llama.cpp's convention: the text's tokens are cut into
// non-overlapping chunks of context_tokens from the start, the first token of each replaced by BOS where the
// model adds one, and positions context/2 .. context-2 of each predict their successor (context/2 - 1
// targets). Sums are in double, in the text's order, so neither threads nor batch_tokens change a bit of the
// quality figures. A scheme that is the reference's cache is not run twice. Memory: one cache a scheme, and
// the reference's logits of a batch.
// Errors: kInvalidArgument (an option, named with its limit; fewer tokens than one chunk: names both), those
// of Engine::MakeCacheConfig and of the forward pass.
Result<QualityReport> MeasureQuality(Engine& engine, std::span<const int32_t> tokens,
                                     const CacheOptions& reference, std::span<const CacheOptions> schemes,
                                     const EvalOptions& options);

struct NeedleOptions {
  int64_t context_tokens = 2048;  // of the prompt and the key together
  std::vector<double> depths = {0.0, 0.25, 0.5, 0.75,
                                1.0};  // 0: the key stands first, 1: right before the question
  std::string filler;                  // repeated as needed; empty: five plain sentences
  int batch_tokens = 512;
  std::function<void(int64_t done_tokens, int64_t total_tokens)> progress;
};

struct NeedleCell {
  int64_t scheme = 0;  // index
  double depth = 0;
  int64_t context_tokens = 0;
  std::string key;     // the number that was hidden
  bool found = false;  // greedy decoding begins with the key
  double nll = 0;      // -log of the probability of the key's tokens after the question, all of them together
};

// Hides a number at each depth of a filler text and asks for it at the end; each depth has a number of its
// own, the same for every scheme. Cells depth by depth, schemes in the order given. Errors:
// kInvalidArgument (a context too short for the question, names both; a depth outside [0, 1]), kUnimplemented
// (no tokenizer), those of Engine::MakeCacheConfig and of the forward pass.
Result<std::vector<NeedleCell>> FindNeedles(Engine& engine, std::span<const CacheOptions> schemes,
                                            const NeedleOptions& options);

}  // namespace holdfast
