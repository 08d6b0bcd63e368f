#include "engine/engine_core.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/model_cache.h"
#include "engine/session.h"
#include "holdfast/model_store.h"
#include "simd/isa.h"

namespace holdfast {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

ModelInfo DescribeModel(std::string path, const LoadedModel& loaded) {
  ModelInfo info = ModelInfoOf(loaded.model->config(), std::move(path));
  info.weight_bytes = loaded.model->weight_bytes();
  info.has_tokenizer = loaded.tokenizer != nullptr;
  info.has_chat_format = loaded.chat_format != ChatFormat::kNone;
  info.tokenizer_missing = loaded.tokenizer_missing;
  return info;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Load(const std::string& model, const EngineOptions& options) {
  HF_RETURN_IF_ERROR(CheckForcedIsa());
  HF_ASSIGN_OR_RETURN(std::string path, ResolveModel(model));
  HF_ASSIGN_OR_RETURN(auto pool, ThreadPool::Create(options.threads));
  LoadOptions load;
  load.exact = options.exact;
  load.progress = options.load_progress;
  HF_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(path, load, *pool));
  return std::unique_ptr<Engine>(
      std::make_unique<EngineCore>(std::move(path), std::move(pool), std::move(loaded)));
}

EngineCore::EngineCore(std::string path, std::unique_ptr<ThreadPool> pool, LoadedModel loaded)
    : pool_(std::move(pool)),
      loaded_(std::move(loaded)),
      info_(DescribeModel(std::move(path), loaded_)),
      memory_(std::make_shared<CacheMemory>()),
      centers_(info_.path, info_.vocab_size, CacheLayers(loaded_.model->config())) {}

Result<CacheConfig> EngineCore::MakeCacheConfig(const CacheOptions& options) const {
  HF_ASSIGN_OR_RETURN(CacheConfig config, CacheConfigOf(loaded_.model->config(), options));
  HF_RETURN_IF_ERROR(centers_.Apply(options, config));
  HF_RETURN_IF_ERROR(ValidateCacheConfig(config));
  return config;
}

std::vector<LayerInfo> EngineCore::Layers(const CacheConfig& config) const {
  return LayerInfosOf(loaded_.model->config(), config);
}

Result<std::unique_ptr<Session>> EngineCore::NewSession(const CacheOptions& options) {
  HF_ASSIGN_OR_RETURN(CacheConfig config, MakeCacheConfig(options));
  std::optional<CacheConfig> two_phase;
  if (options.two_phase) two_phase = std::exchange(config, RawConfigOf(config));
  HF_ASSIGN_OR_RETURN(auto cache, PooledSequence::Open(config));
  return std::unique_ptr<Session>(
      std::make_unique<SessionState>(*this, std::move(cache), std::move(two_phase)));
}

Result<EngineCore::ServingClaim> EngineCore::ClaimForServing() {
  if (serves_.exchange(true)) {
    return FailedPrecondition("serving: the engine serves already, and does so once at a time");
  }
  return ServingClaim(this);
}

Status EngineCore::CheckNotServing(const char* operation) const {
  if (!serves_) return OkStatus();
  return FailedPrecondition(std::string(operation) +
                            ": the engine serves requests and steps nothing else meanwhile");
}

Result<std::vector<TokenEvent>> EngineCore::StepTogether(std::span<Session* const> sessions) {
  HF_RETURN_IF_ERROR(CheckNotServing("step"));
  std::vector<TokenEvent> events(sessions.size());
  std::vector<size_t> running, cancelled;
  std::vector<BatchSlice> slices;
  std::vector<int64_t> logits_rows;
  batch_tokens_.clear();
  for (size_t i = 0; i < sessions.size(); ++i) {
    auto* session = dynamic_cast<SessionState*>(sessions[i]);
    if (session == nullptr || &session->core() != this) {
      return InvalidArgument("step: session " + std::to_string(i) + " is null or of another engine");
    }
    if (session->finished())
      return FailedPrecondition("step: session " + std::to_string(i) + " has finished");
    if (session->cancelled()) {
      cancelled.push_back(i);
      continue;
    }
    HF_RETURN_IF_ERROR(session->EndPhase());
    const auto input = session->NextInput();
    batch_tokens_.insert(batch_tokens_.end(), input.begin(), input.end());
    if (session->WantsLogits()) logits_rows.push_back(static_cast<int64_t>(batch_tokens_.size()) - 1);
    slices.push_back({session->cache(), static_cast<int64_t>(input.size())});
    running.push_back(i);
  }
  if (!running.empty()) HF_RETURN_IF_ERROR(StepRunning(sessions, running, slices, logits_rows, events));
  // Last, so that a step that fails loses no session's end.
  for (size_t i : cancelled) events[i] = static_cast<SessionState*>(sessions[i])->FinishCancelled();
  return events;
}

Status EngineCore::StepRunning(std::span<Session* const> sessions, std::span<const size_t> running,
                               std::span<const BatchSlice> slices, std::span<const int64_t> logits_rows,
                               std::vector<TokenEvent>& events) {
  const int64_t start_ns = NowNs();
  HF_ASSIGN_OR_RETURN(float* logits, ReserveLogits(static_cast<int64_t>(logits_rows.size())));
  HF_ASSIGN_OR_RETURN(KvBatch kv, KvBatch::Begin(slices, workspace_, *pool_));
  HF_RETURN_IF_ERROR(loaded_.model->Forward(batch_tokens_, kv, logits_rows, logits));
  // Whatever can fail comes before the commit: until then every session is as it was.
  const auto vocab = static_cast<size_t>(info_.vocab_size);
  for (size_t i : running) {
    auto* session = static_cast<SessionState*>(sessions[i]);
    if (!session->WantsLogits()) continue;
    HF_RETURN_IF_ERROR(session->Draw({logits, vocab}, sampler_scratch_));
    logits += vocab;
  }
  HF_RETURN_IF_ERROR(kv.Commit());
  const int64_t elapsed_ns = NowNs() - start_ns;
  for (size_t i : running) events[i] = static_cast<SessionState*>(sessions[i])->Accept(elapsed_ns);
  return OkStatus();
}

Result<float*> EngineCore::ReserveLogits(int64_t rows) {
  const int64_t bytes = std::max<int64_t>(rows, 1) * info_.vocab_size * static_cast<int64_t>(sizeof(float));
  if (bytes > logits_.size_bytes()) {
    logits_ = HugeBuffer();  // never both at once
    HF_ASSIGN_OR_RETURN(logits_, HugeBuffer::Allocate(bytes));
  }
  return reinterpret_cast<float*>(logits_.data());
}

Result<const Tokenizer*> EngineCore::RequireTokenizer(const char* operation) const {
  if (loaded_.tokenizer == nullptr)
    return Unimplemented(std::string(operation) + ": " + loaded_.tokenizer_missing);
  return tokenizer();
}

Result<std::vector<int32_t>> EngineCore::Tokenize(std::string_view text,
                                                  const TokenizeOptions& options) const {
  HF_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, RequireTokenizer("tokenize"));
  return tokenizer->Encode(text, {options.add_special, options.parse_special});
}

Result<std::string> EngineCore::Detokenize(std::span<const int32_t> tokens) const {
  HF_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, RequireTokenizer("detokenize"));
  return tokenizer->Decode(tokens, true);
}

Result<std::string> EngineCore::TokenPiece(int32_t token) const {
  HF_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, RequireTokenizer("token piece"));
  return tokenizer->Piece(token, true);
}

bool EngineCore::IsEndToken(int32_t token) const {
  const std::vector<int32_t>& ends = loaded_.model->config().end_tokens;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) return true;
  return tokenizer() != nullptr && tokenizer()->is_end(token);
}
int32_t EngineCore::bos_token() const {
  return tokenizer() != nullptr ? tokenizer()->bos() : -1;
}
bool EngineCore::adds_bos() const {
  return tokenizer() != nullptr && tokenizer()->adds_bos();
}

Result<std::vector<int32_t>> EngineCore::TokenizeChat(std::span<const ChatTurn> turns,
                                                      const ChatOptions& options) const {
  HF_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, RequireTokenizer("chat"));
  if (loaded_.chat_format == ChatFormat::kNone) {
    return Unimplemented("chat: model " + info_.name + " has no chat format; use generate");
  }
  std::vector<ChatMessage> messages;
  for (const ChatTurn& turn : turns) messages.push_back({turn.role, turn.content});
  std::string system;
  if (options.default_system) system = DefaultSystemMessage(loaded_.chat_template);
  HF_ASSIGN_OR_RETURN(const std::string prompt, FormatChat(loaded_.chat_format, messages, true, system));
  return tokenizer->Encode(prompt, {true, true});
}

Result<std::unique_ptr<SequenceCache>> EngineCore::NewCache(const CacheConfig& config) {
  return SequenceCache::Create(config, memory_);
}

Result<const float*> EngineCore::Evaluate(SequenceCache& cache, std::span<const int32_t> tokens,
                                          std::span<const int64_t> logits_rows, const LayerTraceSink* trace,
                                          const KvRowSink* rows) {
  HF_RETURN_IF_ERROR(CheckNotServing("evaluate"));
  HF_ASSIGN_OR_RETURN(float* logits, ReserveLogits(static_cast<int64_t>(logits_rows.size())));
  const BatchSlice slice{&cache, static_cast<int64_t>(tokens.size())};
  HF_ASSIGN_OR_RETURN(KvBatch kv, KvBatch::Begin({&slice, 1}, workspace_, *pool_));
  kv.SetRowSink(rows);
  HF_RETURN_IF_ERROR(loaded_.model->Forward(tokens, kv, logits_rows, logits, trace));
  HF_RETURN_IF_ERROR(kv.Commit());
  return logits;
}

Status EngineCore::Logits(std::span<const int32_t> tokens, const CacheOptions& options,
                          const LogitsOptions& how,
                          const std::function<void(int64_t, int64_t, const float*)>& sink) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count == 0) return InvalidArgument("logits: 0 tokens, must have at least 1");
  if (how.batch_tokens < 1) {
    return InvalidArgument("logits: batch_tokens is " + std::to_string(how.batch_tokens) + ", must be >= 1");
  }
  if (how.last_n < 0 || how.last_n > count) {
    return InvalidArgument("logits: last_n is " + std::to_string(how.last_n) + ", must be in [0, " +
                           std::to_string(count) + "]");
  }
  HF_ASSIGN_OR_RETURN(CacheConfig config, MakeCacheConfig(options));
  if (count > config.max_context) {
    return OutOfRange("logits: " + std::to_string(count) + " tokens, max_context is " +
                      std::to_string(config.max_context));
  }
  HF_ASSIGN_OR_RETURN(auto cache, NewCache(config));
  LayerTraceSink trace;
  if (how.trace) {
    trace = [&](const LayerTrace& t) {
      how.trace({t.layer, t.tokens, t.dim, t.min, t.max, t.mean, t.nans, t.infs});
    };
  }
  const int64_t first_wanted = how.last_n == 0 ? 0 : count - how.last_n;
  for (int64_t begin = 0; begin < count; begin += how.batch_tokens) {
    const int64_t n = std::min<int64_t>(how.batch_tokens, count - begin);
    std::vector<int64_t> rows;
    for (int64_t i = std::max(begin, first_wanted); i < begin + n; ++i) rows.push_back(i - begin);
    HF_ASSIGN_OR_RETURN(const float* logits,
                        Evaluate(*cache, tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(n)),
                                 rows, trace ? &trace : nullptr));
    if (!rows.empty()) sink(begin + rows.front(), static_cast<int64_t>(rows.size()), logits);
  }
  return OkStatus();
}

}  // namespace holdfast
