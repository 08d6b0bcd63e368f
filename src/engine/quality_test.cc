// Quality of schemes on a tiny model, against the definition computed from Engine::Logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "holdfast/eval.h"

namespace holdfast {
namespace {

constexpr const char* kModel = HOLDFAST_SOURCE_DIR "/tests/golden/llama_tied/model.gguf";
constexpr int64_t kContext = 64;

std::unique_ptr<Engine> Load(int threads) {
  EngineOptions options;
  options.threads = threads;
  return Engine::Load(kModel, options).value();
}

std::vector<int32_t> Tokens(int n) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(3 + (i * i * 7 + i) % 90);
  return tokens;
}

CacheOptions Scheme(CodecId k, CodecId v, StorageId storage = StorageId::kContiguous) {
  CacheOptions options;
  options.k_codec = k;
  options.v_codec = v;
  options.storage = storage;
  return options;
}
const CacheOptions kReference;  // f16

EvalOptions Options(int batch_tokens = 512) {
  EvalOptions options;
  options.context_tokens = kContext;
  options.batch_tokens = batch_tokens;
  return options;
}

QualityReport Measure(Engine& engine, const std::vector<int32_t>& tokens,
                      const std::vector<CacheOptions>& schemes, const EvalOptions& options = Options()) {
  auto report = MeasureQuality(engine, tokens, kReference, schemes, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return std::move(report).value();
}

// Log probabilities of every position of one chunk. [context, vocab]
std::vector<std::vector<double>> LogProbabilities(Engine& engine, std::vector<int32_t> chunk,
                                                  const CacheOptions& cache) {
  if (engine.adds_bos()) chunk[0] = engine.bos_token();
  const auto vocab = static_cast<size_t>(engine.info().vocab_size);
  std::vector<std::vector<double>> rows;
  const Status s = engine.Logits(chunk, cache, {}, [&](int64_t, int64_t count, const float* logits) {
    for (int64_t i = 0; i < count; ++i, logits += vocab) {
      std::vector<double> row(logits, logits + vocab);
      const double top = *std::max_element(row.begin(), row.end());
      double sum = 0.0;
      for (const double x : row) sum += std::exp(x - top);
      for (double& x : row) x -= top + std::log(sum);
      rows.push_back(std::move(row));
    }
  });
  EXPECT_TRUE(s.ok()) << s.message();
  return rows;
}

TEST(Quality, IsTheDefinitionOverTheSecondHalfOfEveryChunk) {
  const auto engine = Load(2);
  const std::vector<int32_t> tokens = Tokens(3 * kContext + 10);
  const CacheOptions scheme = Scheme(CodecId::kInt8, CodecId::kBf16);
  const QualityReport report = Measure(*engine, tokens, {scheme});
  double nll = 0.0, reference_nll = 0.0, same = 0.0;
  std::vector<double> klds;
  for (int c = 0; c < 3; ++c) {
    const std::vector<int32_t> chunk(tokens.begin() + c * kContext, tokens.begin() + (c + 1) * kContext);
    const auto p = LogProbabilities(*engine, chunk, kReference), q = LogProbabilities(*engine, chunk, scheme);
    for (size_t i = kContext / 2; i + 1 < kContext; ++i) {
      const auto target = static_cast<size_t>(chunk[i + 1]);
      reference_nll -= p[i][target];
      nll -= q[i][target];
      double kld = 0.0;
      for (size_t t = 0; t < p[i].size(); ++t) kld += std::exp(p[i][t]) * (p[i][t] - q[i][t]);
      klds.push_back(kld);
      const auto top = [](const std::vector<double>& x) {
        return std::max_element(x.begin(), x.end()) - x.begin();
      };
      same += top(p[i]) == top(q[i]) ? 1.0 : 0.0;
    }
  }
  const auto n = static_cast<double>(klds.size());
  double mean = 0.0;
  for (const double k : klds) mean += k / n;
  std::sort(klds.begin(), klds.end());
  const double rank = 0.99 * (n - 1);
  const auto below = static_cast<size_t>(rank);
  const double p99 = klds[below] + (rank - std::floor(rank)) * (klds[below + 1] - klds[below]);

  ASSERT_EQ(report.schemes.size(), 1u);
  const SchemeQuality& q = report.schemes[0];
  EXPECT_EQ(q.chunks, 3);
  EXPECT_EQ(q.targets, 3 * (kContext / 2 - 1));
  EXPECT_NEAR(report.reference.nll, reference_nll / n, 1e-12);
  EXPECT_NEAR(q.nll, nll / n, 1e-12);
  EXPECT_DOUBLE_EQ(q.perplexity, std::exp(q.nll));
  EXPECT_GT(q.kld_mean, 0.0);
  EXPECT_NEAR(q.kld_mean, mean, 1e-13);
  EXPECT_NEAR(q.kld_p99, p99, 1e-13);
  EXPECT_NEAR(q.kld_max, klds.back(), 1e-13);
  EXPECT_DOUBLE_EQ(q.same_top, same / n);
  EXPECT_GT(q.decode_tokens_per_s, 0.0);
}

TEST(Quality, DependsOnNeitherThreadsNorBatchesNorCompany) {
  const std::vector<int32_t> tokens = Tokens(2 * kContext);
  const std::vector<CacheOptions> both = {Scheme(CodecId::kBf16, CodecId::kBf16),
                                          Scheme(CodecId::kInt8, CodecId::kInt8)};
  const auto two = Load(2), one = Load(1);
  const SchemeQuality expected = Measure(*two, tokens, both).schemes[1];
  for (const int batch : {1, 7, 512}) {
    const SchemeQuality q = Measure(*one, tokens, {both[1]}, Options(batch)).schemes[0];
    EXPECT_EQ(q.nll, expected.nll) << "batch " << batch;
    EXPECT_EQ(q.kld_mean, expected.kld_mean) << "batch " << batch;
    EXPECT_EQ(q.kld_p99, expected.kld_p99) << "batch " << batch;
    EXPECT_EQ(q.same_top, expected.same_top) << "batch " << batch;
  }
}

TEST(Quality, OfTheReferenceItselfInAnyStorageIsPerfect) {
  const auto engine = Load(2);
  const QualityReport report = Measure(*engine, Tokens(kContext),
                                       {kReference, Scheme(CodecId::kF16, CodecId::kF16, StorageId::kPaged)});
  for (const SchemeQuality& q : report.schemes) {
    EXPECT_EQ(q.kld_mean, 0.0);
    EXPECT_EQ(q.kld_max, 0.0);
    EXPECT_EQ(q.same_top, 1.0);
    EXPECT_EQ(q.nll, report.reference.nll);
    EXPECT_EQ(q.bytes_per_token, report.reference.bytes_per_token);
  }
}

TEST(Quality, OfEveryCodecComesWithTheBytesOfItsLayers) {
  const auto engine = Load(2);
  std::vector<CacheOptions> schemes;
  for (const CodecId id : AllCodecs()) schemes.push_back(Scheme(id, id));
  const QualityReport report = Measure(*engine, Tokens(kContext), schemes);
  for (size_t i = 0; i < schemes.size(); ++i) {
    int64_t bytes = 0;
    const CacheConfig config = engine->MakeCacheConfig(schemes[i]).value();
    for (const LayerConfig& layer : config.layers) bytes += RowBytes(layer).value();
    EXPECT_EQ(report.schemes[i].bytes_per_token, bytes) << CodecName(AllCodecs()[i]);
    EXPECT_TRUE(std::isfinite(report.schemes[i].kld_mean)) << CodecName(AllCodecs()[i]);
  }
}

TEST(Quality, WhatCannotBeMeasuredIsRefusedWithBothNumbers) {
  const auto engine = Load(1);
  const auto refused = [&](int tokens, const EvalOptions& options, const CacheOptions& cache,
                           std::initializer_list<const char*> words) {
    const Status s = MeasureQuality(*engine, Tokens(tokens), cache, {}, options).status();
    EXPECT_FALSE(s.ok());
    for (const char* word : words) EXPECT_NE(s.message().find(word), std::string::npos) << s.message();
  };
  refused(kContext - 1, Options(), {}, {"63 tokens", "64"});
  EvalOptions options = Options();
  options.context_tokens = 3;
  refused(200, options, {}, {"context_tokens is 3", "4"});
  options = Options();
  options.chunks = -1;
  refused(200, options, {}, {"chunks is -1", "0"});
  options = Options(0);
  refused(200, options, {}, {"batch_tokens is 0", "1"});
  CacheOptions small;
  small.max_context = 32;
  refused(200, Options(), small, {"64", "max_context is 32"});
}

}  // namespace
}  // namespace holdfast
