// Runs a model over its own caches, for tests that ask whether how the tokens are fed changes what comes out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "holdfast/cache_config.h"
#include "models/model.h"

namespace holdfast {

// How one sequence's tokens are fed.
struct RunOptions {
  CodecId codec = CodecId::kF32;
  StorageId storage = StorageId::kContiguous;
  int64_t chunk_tokens = 0;          // tokens a step; 0: all at once
  bool with_others = false;          // three other sequences share every step
  ProtectionConfig protection = {};  // of every layer
  float sparse_v = 0.0f;
  int64_t sparse_pages = 0;  // of layers that are full
};
std::string RunName(const RunOptions& options);

// A loaded model and its threads.
class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> Load(const std::string& path, int threads, bool exact = false);

  Model& model() { return *loaded_.model; }
  const LoadedModel& loaded() const { return loaded_; }

  // Logits [tokens, vocab] of every token in an empty cache.
  Result<std::vector<float>> Logits(std::span<const int32_t> tokens, const RunOptions& options) {
    return LastLogits(tokens, static_cast<int64_t>(tokens.size()), options);
  }
  // The same of the last n tokens alone. [n, vocab]
  Result<std::vector<float>> LastLogits(std::span<const int32_t> tokens, int64_t n,
                                        const RunOptions& options);
  // The n tokens that follow greedily.
  Result<std::vector<int32_t>> Greedy(std::span<const int32_t> prompt, int64_t n, const RunOptions& options);

 private:
  ModelRunner() = default;
  Result<std::unique_ptr<SequenceCache>> NewSequence(const RunOptions& options, int64_t max_context);

  std::unique_ptr<ThreadPool> pool_;
  LoadedModel loaded_;
  AttentionWorkspace workspace_;
};

int32_t ArgMax(std::span<const float> logits);
// Mean over rows of KL(softmax(reference) || softmax(other)), in nats.
double MeanKlDivergence(std::span<const float> reference, std::span<const float> other, int64_t vocab);

}  // namespace holdfast
