#include "engine/serving_memory.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "attention/scratch_limit.h"
#include "base/checked.h"
#include "base/status_macros.h"
#include "kv/layer_transform.h"
#include "simd/isa.h"
#include "span/span.h"

namespace holdfast {
namespace {

constexpr int kMostRunning = 1024;
constexpr int kMostQueued = 1 << 20;
constexpr int kMostStepTokens = 1 << 16;

Status CheckRange(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return OkStatus();
  return InvalidArgument("serving: " + std::string(option) + " is " + std::to_string(value) +
                         ", must be in [" + std::to_string(least) + ", " + std::to_string(most) + "]");
}

Status CheckNotNegative(const char* option, int64_t value) {
  if (value >= 0) return OkStatus();
  return InvalidArgument("serving: " + std::string(option) + " is " + std::to_string(value) +
                         ", must be >= 0");
}

// One pass over as many tokens as a step ever has, on rows that are thrown away.
Status WarmUp(EngineCore& core, const CacheConfig& config, const ServingOptions& options, float* logits) {
  const auto memory = std::make_shared<CacheMemory>();
  std::vector<std::unique_ptr<SequenceCache>> sequences;
  std::vector<BatchSlice> slices;
  for (int64_t left = options.step_tokens; left > 0;) {
    const int64_t tokens = std::min(left, config.max_context);
    HF_ASSIGN_OR_RETURN(auto sequence, SequenceCache::Create(config, memory));
    sequences.push_back(std::move(sequence));
    slices.push_back({sequences.back().get(), tokens});
    left -= tokens;
  }
  const std::vector<int32_t> tokens(static_cast<size_t>(options.step_tokens), 0);
  std::vector<int64_t> rows(static_cast<size_t>(options.max_running));
  std::iota(rows.begin(), rows.end(), options.step_tokens - options.max_running);
  HF_ASSIGN_OR_RETURN(KvBatch kv, KvBatch::Begin(slices, core.workspace(), core.pool()));
  return core.model().Forward(tokens, kv, rows, logits);
}

// What a KvBatch keeps while it is open, at most.
int64_t BatchBytes(const CacheConfig& config, int q_heads, const ServingOptions& options) {
  int64_t transformed = 0;  // floats a token
  int64_t spans = 0;        // of one sequence, in the layer that has most
  for (const LayerConfig& layer : config.layers) {
    const auto& shape = layer.shape;
    if (!layer.k_transform.none() || !layer.v_transform.none() || RotatesKeys(layer) ||
        RotatesValues(layer)) {
      transformed = std::max(transformed, int64_t{q_heads} * shape.k_dim +
                                              int64_t{layer.kv_heads} * (shape.k_dim + shape.v_dim));
    }
    const int64_t units = layer.protection.none() ? 1 : 2;
    spans = std::max(spans, units * (CeilDiv(config.max_context, config.block_tokens) + 2));
  }
  const int64_t token_bytes =
      transformed * static_cast<int64_t>(sizeof(float)) +
      static_cast<int64_t>(sizeof(int64_t) + 2 * sizeof(VisibleRange) + sizeof(int32_t));
  // A vector of spans doubles as it grows.
  return options.step_tokens * token_bytes +
         2 * options.max_running * spans * static_cast<int64_t>(sizeof(Span));
}

}  // namespace

Status ValidateServing(const ServingOptions& o) {
  if (o.cache.two_phase) {
    return InvalidArgument("serving: two_phase rows cannot be shared, nor do they have the same bits");
  }
  HF_RETURN_IF_ERROR(CheckRange("max_running", o.max_running, 1, kMostRunning));
  HF_RETURN_IF_ERROR(CheckRange("max_queued", o.max_queued, 0, kMostQueued));
  // Fewer would leave no token for a prompt beside those that decode.
  HF_RETURN_IF_ERROR(CheckRange("step_tokens", o.step_tokens, o.max_running, kMostStepTokens));
  HF_RETURN_IF_ERROR(CheckNotNegative("budget_bytes", o.budget_bytes));
  HF_RETURN_IF_ERROR(CheckNotNegative("budget_tokens", o.budget_tokens));
  HF_RETURN_IF_ERROR(CheckNotNegative("decode_liability_tokens", o.decode_liability_tokens));
  return CheckRange("prefix_ttl_ms", o.prefix_ttl_ms, 0, int64_t{1} << 50);
}

Result<ServingScratch> ServingScratch::Create(EngineCore& core, const CacheConfig& config,
                                              const ServingOptions& options) {
  ServingScratch scratch;
  scratch.core_ = &core;
  core.workspace() = AttentionWorkspace();  // sessions may have made it larger than steps ever do
  scratch.logits_rows_ = options.max_running;
  HF_ASSIGN_OR_RETURN(scratch.logits_, core.ReserveLogits(options.max_running));
  HF_RETURN_IF_ERROR(WarmUp(core, config, options, scratch.logits_));
  int64_t sampler_bytes = 0;
  try {
    scratch.samplers_.resize(static_cast<size_t>(std::min(core.pool().threads(), options.max_running)));
    for (SamplerScratch& sampler : scratch.samplers_) {
      sampler.Reserve(core.info().vocab_size);
      sampler_bytes += sampler.bytes();
    }
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("serving: no memory to draw tokens from " +
                             std::to_string(core.info().vocab_size) + " logits");
  }
  const int q_heads = core.info().q_heads;
  scratch.fixed_bytes_ = core.logits_bytes() + core.model().scratch_bytes() + sampler_bytes +
                         BatchBytes(config, q_heads, options);
  const AttentionLimits limits = {
      .threads = core.pool().threads(), .tokens = options.step_tokens, .context = config.max_context};
  scratch.attention_limit_bytes_ = AttentionScratchLimit(config.layers, q_heads, limits, ActiveIsa());
  return scratch;
}

namespace {

// Of a node of the index, more than it has.
int64_t NodeBytesBound(const CacheConfig& config) {
  return 1024 + 32 * static_cast<int64_t>(config.layers.size()) +
         config.block_tokens * static_cast<int64_t>(sizeof(int32_t));
}

// What max_running sequences of the context's length take.
Result<int64_t> DefaultBudget(const CacheConfig& config, const ServingOptions& options,
                              int64_t scratch_bytes) {
  HF_ASSIGN_OR_RETURN(const auto shape, SequenceCache::Create(config, std::make_shared<CacheMemory>()));
  const int64_t rows = shape->MostGrowthBytes(config.max_context, SpanCache::SharedWith::kSequences);
  const int64_t nodes = CeilDiv(config.max_context, config.block_tokens) + 1;
  const auto all = CheckedMul(rows + nodes * NodeBytesBound(config), options.max_running);
  const auto sum = all ? CheckedAdd(*all, scratch_bytes) : std::nullopt;
  // The pool itself sets a small part of its budget aside to remember what was evicted.
  const auto budget = sum ? CheckedAdd(*sum, *sum / 64 + (int64_t{1} << 20)) : std::nullopt;
  if (budget) return *budget;
  return ResourceExhausted("serving: " + std::to_string(options.max_running) + " sequences of " +
                           std::to_string(config.max_context) +
                           " tokens fit no memory; name a budget or a smaller context");
}

}  // namespace

Result<std::unique_ptr<CachePool>> MakeServingPool(const CacheConfig& config, const ServingOptions& options,
                                                   int64_t scratch_bytes) {
  PoolOptions pool;
  pool.cache = config;
  pool.budget_bytes = options.budget_bytes;
  if (pool.budget_bytes == 0) {
    HF_ASSIGN_OR_RETURN(pool.budget_bytes, DefaultBudget(config, options, scratch_bytes));
  }
  pool.budget_tokens = options.budget_tokens;
  pool.max_sequences = options.max_running;
  pool.scratch_bytes = scratch_bytes;
  pool.share_prefixes = options.share_prefixes;
  pool.prefix_ttl = options.prefix_ttl_ms * 1000;
  auto made = CachePool::Create(pool);
  if (made.ok() || made.status().code() != StatusCode::kResourceExhausted) return made;
  return ResourceExhausted("serving: " + made.status().message() + "; that is the scratch of steps of " +
                           std::to_string(options.step_tokens) + " tokens for " +
                           std::to_string(options.max_running) + " sequences, fewer need less");
}

}  // namespace holdfast
