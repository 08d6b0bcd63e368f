// A text to calibrate on that needs no file: the model's own.
#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "engine/auto_limits.h"
#include "holdfast/auto_scheme.h"

namespace holdfast {
namespace {

GenerateOptions PlainSampling(uint64_t seed, int64_t tokens) {
  GenerateOptions options;
  options.sampling.temperature = 1.0f;
  options.sampling.top_k = 0;
  options.sampling.top_p = 1.0f;
  options.sampling.min_p = 0.0f;
  options.sampling.seed = seed;
  options.max_tokens = tokens - 1;  // the first is given
  options.ignore_eos = true;
  return options;
}

}  // namespace

Result<std::vector<int32_t>> SampleCalibrationTokens(Engine& engine, const CacheOptions& base,
                                                     const AutoOptions& options) {
  HF_ASSIGN_OR_RETURN(const AutoLimits limits, AutoLimitsOf(engine, base, options));
  const int32_t first = engine.bos_token() >= 0
                            ? engine.bos_token()
                            : static_cast<int32_t>(std::min<int64_t>(1, engine.info().vocab_size - 1));
  std::vector<int64_t> sizes(static_cast<size_t>(limits.ranking_chunks), limits.ranking_tokens);
  sizes.insert(sizes.end(), static_cast<size_t>(limits.held_out_chunks), limits.context_tokens);
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t i = 0; i < sizes.size(); ++i) {
    CacheOptions plain;  // f16
    plain.max_context = sizes[i];
    HF_ASSIGN_OR_RETURN(auto session, engine.NewSession(plain));
    HF_RETURN_IF_ERROR(session->Start({&first, 1}, PlainSampling(i + 1, sizes[i])));
    sessions.push_back(std::move(session));
  }
  while (true) {
    std::vector<Session*> running;
    int64_t done = 0;
    for (const auto& session : sessions) {
      if (!session->finished()) running.push_back(session.get());
      done += static_cast<int64_t>(session->tokens().size());
    }
    if (running.empty()) break;
    HF_RETURN_IF_ERROR(engine.StepTogether(running).status());
    if (options.progress) options.progress("sampling", done, limits.TextTokens());
  }
  std::vector<int32_t> tokens;
  for (const auto& session : sessions) {
    tokens.insert(tokens.end(), session->tokens().begin(), session->tokens().end());
  }
  return tokens;
}

}  // namespace holdfast
