// One sequence's generation: what it feeds next, and what it makes of the logits.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/pooled_sequence.h"
#include "engine/sampler.h"
#include "engine/text_stream.h"
#include "holdfast/engine.h"
#include "tokenizer/tokenizer.h"

namespace holdfast {

class EngineCore;

class SessionState final : public Session {
 public:
  // tokenizer may be null: text is then empty. core must outlive the session.
  // two_phase: what the cache, then a raw one, becomes once the prompt is through.
  SessionState(EngineCore& core, PooledSequence cache, std::optional<CacheConfig> two_phase = std::nullopt);

  Status Start(std::span<const int32_t> tokens, const GenerateOptions& options) override;
  Result<TokenEvent> Step() override;
  bool finished() const override { return finish_ != FinishReason::kNone; }
  void Cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  const std::vector<int32_t>& tokens() const override { return tokens_; }
  std::span<const int32_t> completion() const override;
  GenerationStats stats() const override;
  const CacheConfig& cache_config() const override { return cache_->config(); }
  int64_t cached_tokens() const override { return cache_->length(); }
  Status Rewind(int64_t n) override;
  Result<std::unique_ptr<Session>> Fork() const override;

  // For EngineCore's step: the tokens to feed (never empty on an unfinished session), whether their last
  // one's logits are wanted, and what becomes of them.
  EngineCore& core() { return core_; }
  // Re-encodes the cache where a step is the first after a two-phase prompt. Errors: those of Reencode; nothing has
  // changed then.
  Status EndPhase();
  SequenceCache* cache() { return cache_.get(); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  std::span<const int32_t> NextInput() const;
  bool WantsLogits() const;
  // Draws the token that follows all of tokens() from its logits [vocab]. It becomes part of the session with
  // Accept only, so that a step that fails for one session of a batch takes nothing from the others: the same
  // step again finds it drawn. Errors: those of Sampler::Sample.
  Status Draw(std::span<const float> logits, SamplerScratch& scratch);
  // The cache holds what was fed: goes on to the drawn token, if one was due. elapsed_ns: this step's time.
  TokenEvent Accept(int64_t elapsed_ns);
  TokenEvent FinishCancelled();

 private:
  // Drops cached tokens down to the longest prefix shared with `tokens` that the cache can rewind to.
  void ReusePrefix(std::span<const int32_t> tokens);
  TokenEvent Event() const;

  EngineCore& core_;
  PooledSequence cache_;
  std::optional<CacheConfig> two_phase_;  // while the cache is raw
  std::vector<int32_t> tokens_;  // prompt and completion; the first cache_->length() of them are cached
  size_t prompt_size_ = 0;
  GenerateOptions options_;
  std::optional<Sampler> sampler_;
  struct Drawn {
    int32_t token;
    std::string piece;
  };
  std::optional<Drawn> drawn_;  // at position tokens_.size()
  TextStream text_;
  FinishReason finish_ = FinishReason::kStop;  // nothing to step before the first Start
  std::atomic<bool> cancelled_{false};
  int64_t reused_tokens_ = 0, prefill_ns_ = 0, decode_ns_ = 0;
};

}  // namespace holdfast
