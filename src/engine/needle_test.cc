// Needles in a tiny model: that the prompt holds the key where it should, and that found and nll say what
// greedy decoding would do.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "holdfast/eval.h"

namespace holdfast {
namespace {

constexpr const char* kModel = HOLDFAST_SOURCE_DIR "/tests/golden/llama_tied/model.gguf";
constexpr const char* kWithoutTokenizer = HOLDFAST_SOURCE_DIR "/tests/golden/llama_tied/hf";

NeedleOptions Options(int64_t context, std::vector<double> depths) {
  NeedleOptions options;
  options.context_tokens = context;
  options.depths = std::move(depths);
  return options;
}

TEST(Needle, EveryDepthHasAKeyOfItsOwnWhichSchemesShare) {
  const auto engine = Engine::Load(kModel, {}).value();
  const int64_t context = engine->info().context_length;
  CacheOptions int8;
  int8.k_codec = int8.v_codec = CodecId::kInt8;
  const std::vector<CacheOptions> schemes = {{}, int8};
  const auto cells = FindNeedles(*engine, schemes, Options(context, {0.0, 0.5, 1.0}));
  ASSERT_TRUE(cells.ok()) << cells.status().message();
  ASSERT_EQ(cells->size(), 6u);
  for (size_t i = 0; i < cells->size(); ++i) {
    const NeedleCell& cell = (*cells)[i];
    EXPECT_EQ(cell.scheme, static_cast<int64_t>(i % 2));
    EXPECT_EQ(cell.depth, 0.5 * static_cast<double>(i / 2));
    EXPECT_EQ(cell.context_tokens, context);
    EXPECT_EQ(cell.key.size(), 5u);
    EXPECT_EQ(cell.key, (*cells)[i / 2 * 2].key);
    EXPECT_TRUE(i < 2 || cell.key != (*cells)[i - 2].key);
    EXPECT_TRUE(std::isfinite(cell.nll) && cell.nll > 0.0);
  }
  EXPECT_NE((*cells)[0].nll, (*cells)[1].nll) << "the scheme's own cache was asked";
}

TEST(Needle, TheSameCellsWhateverTheBatch) {
  const auto engine = Engine::Load(kModel, {}).value();
  const std::vector<CacheOptions> schemes(1);
  NeedleOptions options = Options(engine->info().context_length, {0.3});
  const NeedleCell expected = FindNeedles(*engine, schemes, options).value()[0];
  options.batch_tokens = 5;
  const NeedleCell cell = FindNeedles(*engine, schemes, options).value()[0];
  EXPECT_EQ(cell.nll, expected.nll);
  EXPECT_EQ(cell.found, expected.found);
}

TEST(Needle, WhatCannotBeAskedIsRefused) {
  const auto engine = Engine::Load(kModel, {}).value();
  const std::vector<CacheOptions> schemes(1);
  const auto refused = [&](const NeedleOptions& options, const std::string& words) {
    const Status s = FindNeedles(*engine, schemes, options).status();
    EXPECT_FALSE(s.ok());
    EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
  };
  refused(Options(40, {0.5}), "context_tokens is 40");
  refused(Options(100, {1.5}), "depth is 1.5");
  refused(Options(engine->info().context_length + 2, {0.5}), "max_context is");
  NeedleOptions no_batch = Options(100, {0.5});
  no_batch.batch_tokens = 0;
  refused(no_batch, "batch_tokens is 0");
  const auto folder = Engine::Load(kWithoutTokenizer, {}).value();
  EXPECT_EQ(FindNeedles(*folder, schemes, Options(200, {0.5})).status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace holdfast
