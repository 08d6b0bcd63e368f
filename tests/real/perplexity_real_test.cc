// Perplexity of wikitext-2 within 1 % of what llama.cpp measures with the same files and convention.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "holdfast/eval.h"
#include "holdfast/model_store.h"

namespace holdfast {
namespace {

struct Case {
  const char* model;
  int64_t context, chunks;
  double llama_cpp;  // llama-perplexity, f16 cache
};

class PerplexityOfWikitext : public testing::TestWithParam<Case> {};

TEST_P(PerplexityOfWikitext, IsLlamaCppsWithinOnePercent) {
  std::ifstream in(HOLDFAST_SOURCE_DIR "/../shared/data/wikitext2/test.txt", std::ios::binary);
  if (!in) GTEST_SKIP() << "the wikitext-2 test text is not at ../shared/data/wikitext2/test.txt";
  if (!ResolveModel(GetParam().model).ok()) {
    GTEST_SKIP() << "model " << GetParam().model << " is not fetched; run: holdfast models fetch "
                 << GetParam().model;
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto engine = Engine::Load(GetParam().model, {});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto tokens = (*engine)->Tokenize(text, {}).value();
  EvalOptions options;
  options.context_tokens = GetParam().context;
  options.chunks = GetParam().chunks;
  const auto report = MeasureQuality(**engine, tokens, {}, {}, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const SchemeQuality& result = report->reference;
  EXPECT_EQ(result.chunks, GetParam().chunks);
  EXPECT_EQ(result.targets, GetParam().chunks * (GetParam().context / 2 - 1));
  std::printf("%s at %lld: %.4f, llama.cpp %.4f\n", GetParam().model,
              static_cast<long long>(GetParam().context), result.perplexity, GetParam().llama_cpp);
  EXPECT_LE(std::abs(result.perplexity / GetParam().llama_cpp - 1.0), 0.01);
}

INSTANTIATE_TEST_SUITE_P(Models, PerplexityOfWikitext,
                         testing::Values(Case{"smollm2", 512, 40, 19.0115}, Case{"smollm2", 2048, 6, 17.2742},
                                         Case{"gemma3", 512, 40, 14.7004}),
                         [](const auto& param) {
                           return std::string(param.param.model) + "_" + std::to_string(param.param.context);
                         });

}  // namespace
}  // namespace holdfast
