// The engine behind holdfast/engine.h: one model, its threads and memory, and steps over many sessions.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "cache/cache_memory.h"
#include "engine/center_store.h"
#include "engine/sampler.h"
#include "holdfast/engine.h"
#include "kv/batch.h"
#include "models/model.h"

namespace holdfast {

class EngineCore final : public Engine {
 public:
  EngineCore(std::string path, std::unique_ptr<ThreadPool> pool, LoadedModel loaded);

  const ModelInfo& info() const override { return info_; }
  Result<CacheConfig> MakeCacheConfig(const CacheOptions& options) const override;
  std::vector<LayerInfo> Layers(const CacheConfig& config) const override;
  Result<std::unique_ptr<Session>> NewSession(const CacheOptions& options) override;
  Result<std::vector<TokenEvent>> StepTogether(std::span<Session* const> sessions) override;
  Result<std::vector<int32_t>> Tokenize(std::string_view text, const TokenizeOptions& options) const override;
  Result<std::string> Detokenize(std::span<const int32_t> tokens) const override;
  Result<std::string> TokenPiece(int32_t token) const override;
  bool IsEndToken(int32_t token) const override;
  int32_t bos_token() const override;
  bool adds_bos() const override;
  Result<std::vector<int32_t>> TokenizeChat(std::span<const ChatTurn> turns,
                                            const ChatOptions& options) const override;
  Status Logits(std::span<const int32_t> tokens, const CacheOptions& cache, const LogitsOptions& options,
                const std::function<void(int64_t, int64_t, const float*)>& sink) override;

  const Tokenizer* tokenizer() const { return loaded_.tokenizer.get(); }
  ThreadPool& pool() { return *pool_; }

  // Errors: those of SequenceCache::Create.
  Result<std::unique_ptr<SequenceCache>> NewCache(const CacheConfig& config);
  // One forward pass of tokens that follow what `cache` holds, which it then holds too. Returns logits
  // [logits_rows.size(), vocab_size] of the tokens at these ascending indices, valid until the engine's next pass. On
  // error the cache is as it was.
  Result<const float*> Evaluate(SequenceCache& cache, std::span<const int32_t> tokens,
                                std::span<const int64_t> logits_rows, const LayerTraceSink* trace = nullptr,
                                const KvRowSink* rows = nullptr);
  CenterStore& centers() const { return centers_; }

  // Lets one serving engine at a time have the engine's passes, scratch and logits: until the claim is gone, steps of
  // sessions and Evaluate are refused, as is another claim: kFailedPrecondition.
  struct EndsServing {
    void operator()(EngineCore* core) const { core->serves_ = false; }
  };
  using ServingClaim = std::unique_ptr<EngineCore, EndsServing>;
  Result<ServingClaim> ClaimForServing();

  // For who has claimed the engine and makes up batches of his own.
  Model& model() { return *loaded_.model; }
  AttentionWorkspace& workspace() { return workspace_; }
  // Room for [rows, vocab_size], valid until the next call. Errors: kResourceExhausted.
  Result<float*> ReserveLogits(int64_t rows);
  int64_t logits_bytes() const { return logits_.size_bytes(); }

 private:
  // The forward pass of the sessions[i] for i in running, whose input is in batch_tokens_ as slices say. On error every
  // session is as it was.
  Status StepRunning(std::span<Session* const> sessions, std::span<const size_t> running,
                     std::span<const BatchSlice> slices, std::span<const int64_t> logits_rows,
                     std::vector<TokenEvent>& events);
  Result<const Tokenizer*> RequireTokenizer(const char* operation) const;
  Status CheckNotServing(const char* operation) const;

  std::unique_ptr<ThreadPool> pool_;
  LoadedModel loaded_;
  ModelInfo info_;
  std::shared_ptr<CacheMemory> memory_;
  AttentionWorkspace workspace_;
  HugeBuffer logits_;  // of the step at hand
  SamplerScratch sampler_scratch_;
  std::vector<int32_t> batch_tokens_;
  std::atomic<bool> serves_{false};
  mutable CenterStore centers_;  // what it has read already changes no answer
};

}  // namespace holdfast
