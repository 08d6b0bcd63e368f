#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "engine/stopwatch.h"
#include "holdfast/bench.h"

namespace holdfast {
namespace {

// Token ids that exist in every vocabulary worth measuring and differ from step to step.
std::vector<int32_t> BenchTokens(int64_t n, int64_t vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    tokens[static_cast<size_t>(i)] = static_cast<int32_t>((i * 7919 + 100) % vocab);
  return tokens;
}

// Before so many tokens are made up.
Status CheckFits(const Session& session, int64_t tokens) {
  const int64_t limit = session.cache_config().max_context;
  if (tokens <= limit) return OkStatus();
  return OutOfRange("bench decode: " + std::to_string(tokens) + " tokens, max_context is " +
                    std::to_string(limit));
}

GenerateOptions Greedy(int64_t max_tokens, int batch_tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0.0f;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  options.prefill_chunk_tokens = batch_tokens;
  return options;
}

Status RunToEnd(Session& session) {
  while (!session.finished()) {
    auto event = session.Step();
    if (!event.ok()) return event.status();
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<DecodeCell>> BenchDecode(Engine& engine, const CacheOptions& cache,
                                            const std::vector<int64_t>& depths,
                                            const std::vector<int64_t>& prompts, int64_t decode_tokens,
                                            int batch_tokens) {
  if (decode_tokens < 1) {
    return InvalidArgument("bench decode: decode tokens is " + std::to_string(decode_tokens) +
                           ", must be >= 1");
  }
  std::vector<DecodeCell> cells;
  const int64_t vocab = engine.info().vocab_size;
  for (const int64_t n : prompts) {
    if (n < 1)
      return InvalidArgument("bench decode: prompt is " + std::to_string(n) + " tokens, must be >= 1");
    std::vector<double> rates;
    for (int repeat = 0; repeat < (n <= 1024 ? 3 : 1); ++repeat) {
      HF_ASSIGN_OR_RETURN(auto session, engine.NewSession(cache));
      HF_RETURN_IF_ERROR(CheckFits(*session, n));
      HF_RETURN_IF_ERROR(session->Start(BenchTokens(n, vocab), Greedy(1, batch_tokens)));
      HF_RETURN_IF_ERROR(RunToEnd(*session));
      rates.push_back(static_cast<double>(n) * 1e9 / static_cast<double>(session->stats().prefill_ns));
    }
    cells.push_back({true, 0, n, Median(rates)});
  }
  for (const int64_t depth : depths) {
    if (depth < 1)
      return InvalidArgument("bench decode: depth is " + std::to_string(depth) + ", must be >= 1");
    HF_ASSIGN_OR_RETURN(auto session, engine.NewSession(cache));
    HF_RETURN_IF_ERROR(CheckFits(*session, depth));
    HF_RETURN_IF_ERROR(session->Start(BenchTokens(depth, vocab), Greedy(decode_tokens + 1, batch_tokens)));
    std::vector<double> step_ns;
    while (!session->finished()) {
      const int64_t before_ns = session->stats().decode_ns;
      HF_ASSIGN_OR_RETURN(const TokenEvent event, session->Step());
      const int64_t after_ns = session->stats().decode_ns;
      if (event.token >= 0 && after_ns > before_ns)
        step_ns.push_back(static_cast<double>(after_ns - before_ns));
    }
    if (step_ns.empty())
      return OutOfRange("bench decode: no room to decode behind " + std::to_string(depth) + " tokens");
    cells.push_back({false, depth, static_cast<int64_t>(step_ns.size()), 1e9 / Median(step_ns)});
  }
  return cells;
}

}  // namespace holdfast
