// What a serving engine holds besides rows, and the budget that both live in.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine_core.h"
#include "engine/sampler.h"
#include "holdfast/serving.h"
#include "pool/cache_pool.h"

namespace holdfast {

// Checks every option; the message names it, its value and its limit.
Status ValidateServing(const ServingOptions& options);

// Scratch of a serving engine's steps: the model's, attention's, logits, and what drawing tokens takes. Not thread-safe.
class ServingScratch {
 public:
  // Makes everything as large as it ever gets but for attention's, which grows with contexts and whose limit is a formula:
  // runs the model over a batch of options.step_tokens tokens. Errors: kResourceExhausted, those of Model::Forward.
  static Result<ServingScratch> Create(EngineCore& core, const CacheConfig& config,
                                       const ServingOptions& options);

  int64_t limit_bytes() const { return fixed_bytes_ + attention_limit_bytes_; }
  int64_t held_bytes() const {
    return fixed_bytes_ + core_->workspace().bytes();
  }                                    // never more than limit_bytes()
  float* logits() { return logits_; }  // [logits_rows(), vocab_size]
  int64_t logits_rows() const { return logits_rows_; }
  // So many may draw at once, each with scratch of its own.
  int64_t samplers() const { return static_cast<int64_t>(samplers_.size()); }
  SamplerScratch& sampler(int64_t index) { return samplers_[static_cast<size_t>(index)]; }

 private:
  EngineCore* core_ = nullptr;
  float* logits_ = nullptr;
  int64_t logits_rows_ = 0;
  std::vector<SamplerScratch> samplers_;
  int64_t fixed_bytes_ = 0;
  int64_t attention_limit_bytes_ = 0;
};

// The pool of these options. scratch_bytes: what is set aside in the budget. Its unit of time is a microsecond. Errors:
// those of CachePool::Create; kResourceExhausted (a default budget that no number can hold).
Result<std::unique_ptr<CachePool>> MakeServingPool(const CacheConfig& config, const ServingOptions& options,
                                                   int64_t scratch_bytes);

}  // namespace holdfast
