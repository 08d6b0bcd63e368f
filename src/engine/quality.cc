// Schemes side by side: every batch of a chunk goes through the reference's cache and then through each
// scheme's, so that of the reference's logits one batch is kept and never a whole chunk.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "base/arena.h"
#include "base/status_macros.h"
#include "cache/sequence_cache.h"
#include "engine/distribution.h"
#include "engine/engine_core.h"
#include "engine/stopwatch.h"
#include "holdfast/eval.h"
#include "simd/isa.h"

namespace holdfast {
namespace {

constexpr int64_t kDecodeTargets = 24;  // the last of a text, fed one at a time and timed
constexpr int64_t kReferenceBytes = int64_t{256}
                                    << 20;  // of the reference's logits; fewer rows a batch past it

// One cache and what it scored, target by target in the text's order.
struct SchemeRun {
  std::unique_ptr<SequenceCache> cache;
  std::vector<double> nll, kld;
  int64_t same_top = 0;
  std::vector<double> decode_ns;
};

struct TargetScore {
  double nll = 0, kld = 0;
  bool same_top = true;
};

class Comparison {
 public:
  // runs[0] is the reference.
  Comparison(EngineCore& core, const EvalOptions& options, int64_t chunks, std::vector<SchemeRun> runs)
      : core_(core),
        options_(options),
        kernels_(HOLDFAST_SELECT_KERNELS(ActiveIsa(), kDivergenceKernels)),
        vocab_(core.info().vocab_size),
        chunks_(chunks),
        runs_(std::move(runs)) {
    const int64_t rows = kReferenceBytes / (vocab_ * static_cast<int64_t>(sizeof(float)));
    batch_rows_ = std::max(kDecodeTargets, std::min<int64_t>(options.batch_tokens, rows));
  }

  Status Run(std::span<const int32_t> tokens) {
    HF_ASSIGN_OR_RETURN(HugeBuffer buffer,
                        HugeBuffer::Allocate(batch_rows_ * vocab_ * static_cast<int64_t>(sizeof(float))));
    reference_logits_ = reinterpret_cast<float*>(buffer.data());
    reference_.resize(static_cast<size_t>(batch_rows_));
    scores_.resize(static_cast<size_t>(batch_rows_));
    const auto n = static_cast<size_t>(options_.context_tokens);
    for (int64_t c = 0; c < chunks_; ++c) {
      HF_RETURN_IF_ERROR(RunChunk(tokens.subspan(static_cast<size_t>(c) * n, n), c + 1 == chunks_));
    }
    return OkStatus();
  }

  std::vector<SchemeRun>& runs() { return runs_; }

 private:
  Status RunChunk(std::span<const int32_t> source, bool last);
  Status RunWithoutLogits(SchemeRun& run, int64_t end);
  // Positions [begin, begin + count) of every run, `step` tokens a pass; timed where they are decoded.
  Status RunTargets(int64_t begin, int64_t count, int64_t step, bool timed);
  void Score(SchemeRun& run, const float* logits, int64_t row, int64_t position, int64_t count);
  void ReportProgress(int64_t tokens) {
    done_tokens_ += tokens;
    if (options_.progress) {
      options_.progress(done_tokens_,
                        chunks_ * (options_.context_tokens - 1) * static_cast<int64_t>(runs_.size()));
    }
  }

  EngineCore& core_;
  const EvalOptions& options_;
  const DivergenceKernels& kernels_;
  const int64_t vocab_, chunks_;
  std::vector<SchemeRun> runs_;
  int64_t batch_rows_ = 0, done_tokens_ = 0;
  std::vector<int32_t> chunk_;           // as it is fed
  std::span<const int32_t> source_;      // as it is predicted
  float* reference_logits_ = nullptr;    // [batch_rows_, vocab]
  std::vector<Distribution> reference_;  // [batch_rows_]
  std::vector<TargetScore> scores_;      // [batch_rows_]
};

Status Comparison::RunChunk(std::span<const int32_t> source, bool last) {
  source_ = source;
  chunk_.assign(source.begin(), source.end());
  if (core_.adds_bos()) chunk_[0] = core_.bos_token();
  const int64_t begin = options_.context_tokens / 2;
  const int64_t end = options_.context_tokens - 1;  // the last token is predicted, not fed
  const int64_t decode_begin = last && options_.time_decode ? std::max(begin, end - kDecodeTargets) : end;
  for (SchemeRun& run : runs_) {
    run.cache->Clear();
    HF_RETURN_IF_ERROR(RunWithoutLogits(run, begin));
  }
  for (int64_t p = begin; p < decode_begin; p += batch_rows_) {
    const int64_t count = std::min(batch_rows_, decode_begin - p);
    HF_RETURN_IF_ERROR(RunTargets(p, count, std::min<int64_t>(count, options_.batch_tokens), false));
  }
  return RunTargets(decode_begin, end - decode_begin, 1, true);
}

Status Comparison::RunWithoutLogits(SchemeRun& run, int64_t end) {
  for (int64_t p = 0; p < end; p += options_.batch_tokens) {
    const int64_t count = std::min<int64_t>(options_.batch_tokens, end - p);
    const auto tokens =
        std::span<const int32_t>(chunk_).subspan(static_cast<size_t>(p), static_cast<size_t>(count));
    HF_RETURN_IF_ERROR(core_.Evaluate(*run.cache, tokens, {}).status());
    ReportProgress(count);
  }
  return OkStatus();
}

Status Comparison::RunTargets(int64_t begin, int64_t count, int64_t step, bool timed) {
  for (SchemeRun& run : runs_) {
    for (int64_t row = 0; row < count; row += step) {
      const int64_t fed = std::min(step, count - row);
      const auto tokens = std::span<const int32_t>(chunk_).subspan(static_cast<size_t>(begin + row),
                                                                   static_cast<size_t>(fed));
      std::vector<int64_t> wanted(static_cast<size_t>(fed));
      std::iota(wanted.begin(), wanted.end(), int64_t{0});
      Result<const float*> logits = nullptr;
      const double ns = TimeNs([&] { logits = core_.Evaluate(*run.cache, tokens, wanted); });
      HF_RETURN_IF_ERROR(logits.status());
      if (timed) run.decode_ns.push_back(ns);
      Score(run, *logits, row, begin + row, fed);
      ReportProgress(fed);
    }
  }
  return OkStatus();
}

void Comparison::Score(SchemeRun& run, const float* logits, int64_t row, int64_t position, int64_t count) {
  const bool is_reference = &run == &runs_.front();
  core_.pool().ParallelFor(count, [&](int64_t i, int) {
    const float* own = logits + i * vocab_;
    const auto slot = static_cast<size_t>(row + i);
    Distribution& reference = reference_[slot];
    TargetScore& score = scores_[slot];
    const int32_t target = source_[static_cast<size_t>(position + i + 1)];
    if (is_reference) {
      float* kept = reference_logits_ + (row + i) * vocab_;
      std::memcpy(kept, own, static_cast<size_t>(vocab_) * sizeof(float));
      reference = MakeDistribution(kernels_, kept, vocab_);
      score = {reference.Surprise(target), 0.0, true};
      return;
    }
    Distribution scheme;
    scheme.logits = own;
    scheme.size = vocab_;
    scheme.most_likely = kernels_.first_largest(own, vocab_);
    scheme.top = own[scheme.most_likely];
    score.kld = Divergence(kernels_, reference, scheme);
    score.nll = scheme.Surprise(target);
    score.same_top = scheme.most_likely == reference.most_likely;
  });
  for (int64_t i = 0; i < count; ++i) {
    const TargetScore& score = scores_[static_cast<size_t>(row + i)];
    run.nll.push_back(score.nll);
    run.kld.push_back(score.kld);
    run.same_top += score.same_top ? 1 : 0;
  }
}

struct Moments {
  double mean = 0, stderr_of_mean = 0;
};
Moments MomentsOf(const std::vector<double>& values) {
  double sum = 0.0, squares = 0.0;
  for (const double v : values) sum += v;
  const auto n = static_cast<double>(values.size());
  const double mean = sum / n;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / n / std::max(1.0, n - 1.0))};
}

// Between ranks the value is interpolated. REQUIRES at least one value.
double Quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double rank = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - static_cast<double>(below)) * (values[above] - values[below]);
}

Result<SchemeQuality> Summarise(const SchemeRun& run, int64_t chunks) {
  SchemeQuality quality;
  quality.chunks = chunks;
  quality.targets = static_cast<int64_t>(run.nll.size());
  const Moments nll = MomentsOf(run.nll), kld = MomentsOf(run.kld);
  quality.nll = nll.mean;
  quality.nll_stderr = nll.stderr_of_mean;
  quality.perplexity = std::exp(nll.mean);
  quality.kld_mean = kld.mean;
  quality.kld_stderr = kld.stderr_of_mean;
  quality.kld_p99 = Quantile(run.kld, 0.99);
  quality.kld_max = *std::max_element(run.kld.begin(), run.kld.end());
  quality.same_top = static_cast<double>(run.same_top) / static_cast<double>(quality.targets);
  if (!run.decode_ns.empty()) quality.decode_tokens_per_s = 1e9 / Median(run.decode_ns);
  for (const LayerConfig& layer : run.cache->config().layers) {
    HF_ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(layer));
    quality.bytes_per_token += row_bytes;
  }
  return quality;
}

Result<int64_t> ChunksOf(std::span<const int32_t> tokens, const EvalOptions& options) {
  const int64_t n = options.context_tokens;
  if (n < 4) return InvalidArgument("eval: context_tokens is " + std::to_string(n) + ", must be >= 4");
  if (options.chunks < 0) {
    return InvalidArgument("eval: chunks is " + std::to_string(options.chunks) + ", must be >= 0");
  }
  if (options.batch_tokens < 1) {
    return InvalidArgument("eval: batch_tokens is " + std::to_string(options.batch_tokens) +
                           ", must be >= 1");
  }
  const int64_t available = static_cast<int64_t>(tokens.size()) / n;
  if (available == 0) {
    return InvalidArgument("eval: the text has " + std::to_string(tokens.size()) +
                           " tokens, one chunk needs " + std::to_string(n));
  }
  return options.chunks == 0 ? available : std::min(available, options.chunks);
}

Result<SchemeRun> NewRun(EngineCore& core, const CacheConfig& config, int64_t context_tokens) {
  if (context_tokens > config.max_context) {
    return OutOfRange("eval: context_tokens is " + std::to_string(context_tokens) + ", max_context is " +
                      std::to_string(config.max_context));
  }
  SchemeRun run;
  HF_ASSIGN_OR_RETURN(run.cache, core.NewCache(config));
  return run;
}

}  // namespace

Result<QualityReport> MeasureQuality(Engine& engine, std::span<const int32_t> tokens,
                                     const CacheOptions& reference, std::span<const CacheOptions> schemes,
                                     const EvalOptions& options) {
  auto* core = dynamic_cast<EngineCore*>(&engine);
  if (core == nullptr) return InvalidArgument("eval: the engine was not made by Engine::Load");
  HF_ASSIGN_OR_RETURN(const int64_t chunks, ChunksOf(tokens, options));
  HF_ASSIGN_OR_RETURN(const CacheConfig reference_config, engine.MakeCacheConfig(reference));
  std::vector<SchemeRun> runs;
  HF_ASSIGN_OR_RETURN(SchemeRun first, NewRun(*core, reference_config, options.context_tokens));
  runs.push_back(std::move(first));
  std::vector<size_t> run_of;  // scheme -> run
  for (const CacheOptions& scheme : schemes) {
    HF_ASSIGN_OR_RETURN(const CacheConfig config, engine.MakeCacheConfig(scheme));
    if (config == reference_config) {
      run_of.push_back(0);
      continue;
    }
    HF_ASSIGN_OR_RETURN(SchemeRun run, NewRun(*core, config, options.context_tokens));
    run_of.push_back(runs.size());
    runs.push_back(std::move(run));
  }
  Comparison comparison(*core, options, chunks, std::move(runs));
  HF_RETURN_IF_ERROR(comparison.Run(tokens));
  QualityReport report;
  HF_ASSIGN_OR_RETURN(report.reference, Summarise(comparison.runs().front(), chunks));
  for (const size_t run : run_of) {
    HF_ASSIGN_OR_RETURN(SchemeQuality quality, Summarise(comparison.runs()[run], chunks));
    report.schemes.push_back(quality);
  }
  return report;
}

}  // namespace holdfast
