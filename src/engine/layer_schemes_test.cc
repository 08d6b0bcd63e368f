// Codecs layer by layer, protected rows and two-phase prefills, by sessions of tiny models.
#include <gtest/gtest.h>

#include <string>

#include "holdfast/engine.h"

namespace holdfast {
namespace {

constexpr const char* kModel = HOLDFAST_SOURCE_DIR "/tests/golden/llama_tied/model.gguf";

std::unique_ptr<Engine> Load() {
  EngineOptions options;
  options.threads = 2;
  auto engine = Engine::Load(kModel, options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

std::vector<int32_t> Prompt() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(3 + (i * 5) % 90);
  return tokens;
}

GenerateOptions Greedy() {
  GenerateOptions options;
  options.sampling.temperature = 0.0f;
  options.max_tokens = 12;
  options.ignore_eos = true;
  return options;
}

std::vector<int32_t> Tokens(Session& session) {
  EXPECT_TRUE(session.Start(Prompt(), Greedy()).ok());
  while (!session.finished()) EXPECT_TRUE(session.Step().ok());
  return session.tokens();
}

TEST(LayerSchemes, AreReadAsTheyAreWritten) {
  for (const char* text : {"0=f16", "0-1=f16,2-29=aura4v2", "7=f16:int8,7=affine4g16"}) {
    const auto schemes = ParseLayerSchemes(text);
    ASSERT_TRUE(schemes.ok()) << schemes.status().message();
    EXPECT_EQ(ParseLayerSchemes(LayerSchemesName(*schemes)).value(), *schemes);
  }
  for (const char* text :
       {"", "f16", "=f16", "0=", "1-0=f16", "-1=f16", "0-=f16", "0=f16,", "x=f16", "0=f17", "9999=f16"}) {
    EXPECT_FALSE(ParseLayerSchemes(text).ok()) << text;
  }
}

TEST(LayerSchemes, SetTheCodecsOfTheirLayersAndProtectedLayersStayF16) {
  const auto engine = Load();
  CacheOptions options;
  options.k_codec = options.v_codec = CodecId::kInt8;
  options.layers = {{1, 1, {CodecId::kAffine8, CodecId::kF32}}};
  const CacheConfig config = engine->MakeCacheConfig(options).value();
  EXPECT_EQ(config.layers[0].k_codec, CodecSpec(CodecId::kInt8));
  EXPECT_EQ(config.layers[1].k_codec, CodecSpec(CodecId::kAffine8));
  EXPECT_EQ(config.layers[1].v_codec, CodecSpec(CodecId::kF32));
  options.protect_layers = 1;
  const CacheConfig kept = engine->MakeCacheConfig(options).value();
  EXPECT_EQ(kept.layers.front().k_codec, CodecSpec(CodecId::kF16));
  EXPECT_EQ(kept.layers.back().v_codec, CodecSpec(CodecId::kF16));
  options.protect_layers = 1000;
  EXPECT_NE(engine->MakeCacheConfig(options).status().message().find("1000"), std::string::npos);
  options.protect_layers = 0;
  options.layers = {{0, 77, {}}};
  EXPECT_NE(engine->MakeCacheConfig(options).status().message().find("77"), std::string::npos);
}

TEST(ProtectedRows, AreInThePlanAndCoverTheWholeContextExactly) {
  const auto engine = Load();
  CacheOptions coarse;
  coarse.k_codec = coarse.v_codec = CodecId::kAura2;
  CacheOptions kept = coarse;
  kept.protection.recent_tokens = 64;  // more than there are
  const auto exact = engine->NewSession({}).value();
  const auto covered = engine->NewSession(kept).value();
  EXPECT_EQ(Tokens(*covered), Tokens(*exact)) << "every row is seen in f16";
  EXPECT_EQ(covered->stats().allocated_bytes, covered->stats().planned_bytes);
  const auto bare = engine->NewSession(coarse).value();
  Tokens(*bare);
  EXPECT_GT(covered->stats().allocated_bytes, bare->stats().allocated_bytes);
}

TEST(TwoPhasePrefill, KeepsThePromptInF16AndEncodesItBeforeTheFirstToken) {
  const auto engine = Load();
  for (const StorageId storage : AllStorages()) {
    CacheOptions options;
    options.storage = storage;
    options.k_codec = options.v_codec = CodecId::kInt8;
    const auto plain = engine->NewSession(options).value();
    Tokens(*plain);
    options.two_phase = true;
    const auto session = engine->NewSession(options).value();
    ASSERT_TRUE(session->Start(Prompt(), Greedy()).ok());
    ASSERT_TRUE(session->Step().ok());  // the prompt, and the first token
    EXPECT_EQ(session->cache_config().layers[0].k_codec, CodecSpec(CodecId::kF16));
    EXPECT_EQ(session->Fork().status().code(), StatusCode::kFailedPrecondition);
    ASSERT_TRUE(session->Step().ok());
    EXPECT_EQ(session->cache_config().layers[0].k_codec, CodecSpec(CodecId::kInt8));
    EXPECT_EQ(session->cached_tokens(), 41);
    EXPECT_TRUE(session->Fork().ok());
    while (!session->finished()) ASSERT_TRUE(session->Step().ok());
    EXPECT_EQ(session->stats().allocated_bytes, session->stats().planned_bytes);
    EXPECT_EQ(session->stats().allocated_bytes, plain->stats().allocated_bytes);
    EXPECT_EQ(session->tokens().size(), plain->tokens().size());
  }
}

TEST(TwoPhasePrefill, OfAnF16CacheChangesNothing) {
  const auto engine = Load();
  CacheOptions options;
  const auto plain = engine->NewSession(options).value();
  options.two_phase = true;
  const auto session = engine->NewSession(options).value();
  EXPECT_EQ(Tokens(*session), Tokens(*plain));
}

TEST(TwoPhasePrefill, WritesTheBoundsOfPagesToo) {
  const auto engine = Load();
  std::vector<int32_t> prompt;
  for (int i = 0; i < 300; ++i) prompt.push_back(3 + (i * i + 7 * i) % 250);
  GenerateOptions greedy = Greedy();
  greedy.max_tokens = 40;
  greedy.ignore_eos = true;
  const auto tokens_of = [&](const CacheOptions& options) {
    const auto session = engine->NewSession(options).value();
    EXPECT_TRUE(session->Start(prompt, greedy).ok());
    while (!session->finished()) EXPECT_TRUE(session->Step().ok());
    EXPECT_EQ(session->stats().allocated_bytes, session->stats().planned_bytes);
    return std::vector<int32_t>(session->tokens().begin(), session->tokens().end());
  };
  CacheOptions options;
  options.sparse_pages = kMinSparsePages;
  const auto plain = tokens_of(options);
  options.two_phase = true;
  EXPECT_EQ(tokens_of(options), plain);
}

}  // namespace
}  // namespace holdfast
