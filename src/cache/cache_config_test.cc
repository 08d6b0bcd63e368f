#include "holdfast/cache_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "cache/sequence_cache.h"
#include "cache/testing_cache.h"

namespace holdfast {
namespace {

using testing::Full;
using testing::SmallConfig;
using testing::Window;

// Each line breaks one value of a good configuration; the message names it.
TEST(ValidateCacheConfig, NamesLayerFieldValueAndLimit) {
  struct Bad {
    void (*spoil)(CacheConfig&);
    const char* message;
  };
  const Bad cases[] = {
      {[](CacheConfig& c) { c.layers.clear(); }, "number of layers is 0, must be in [1, 4096]"},
      {[](CacheConfig& c) { c.max_context = 0; }, "max_context is 0, must be in [1, 68719476736]"},
      {[](CacheConfig& c) { c.max_context = INT64_MAX; }, "max_context is 9223372036854775807"},
      {[](CacheConfig& c) { c.rewind_tokens = -1; }, "rewind_tokens is -1, must be in [0, 1048576]"},
      {[](CacheConfig& c) { c.block_tokens = 8; }, "block_tokens is 8, must be a power of two in [16, 256]"},
      {[](CacheConfig& c) { c.block_tokens = 48; }, "block_tokens is 48"},
      {[](CacheConfig& c) { c.block_tokens = 512; }, "block_tokens is 512"},
      {[](CacheConfig& c) { c.storage = static_cast<StorageId>(9); }, "storage is id 9"},
      {[](CacheConfig& c) { c.layers[1].kv_heads = 0; }, "layer 1: kv_heads is 0, must be in [1, 4096]"},
      {[](CacheConfig& c) { c.layers[1].shape.k_dim = 1025; },
       "layer 1: k_dim is 1025, must be in [1, 1024]"},
      {[](CacheConfig& c) { c.layers[1].shape.v_dim = 0; }, "layer 1: v_dim is 0"},
      {[](CacheConfig& c) { c.layers[0].shape = {.k_dim = 8, .v_dim = 9, .v_is_prefix_of_k = true}; },
       "layer 0: v_dim is 9, must be in [1, 8]"},
      {[](CacheConfig& c) { c.layers[1].k_codec = static_cast<CodecId>(200); }, "layer 1: k_codec is id 200"},
      {[](CacheConfig& c) { c.layers[1].v_codec = static_cast<CodecId>(200); }, "layer 1: v_codec is id 200"},
      {[](CacheConfig& c) { c.layers[1].layout.id = static_cast<LayoutId>(77); }, "layer 1: layout is id 77"},
      {[](CacheConfig& c) { c.layers[1].layout = Window(0); }, "layer 1: layout window: window_tokens is 0"},
      {[](CacheConfig& c) { c.layers[1].layout = Window(8, -1); },
       "layer 1: layout window: sink_tokens is -1"},
      {[](CacheConfig& c) { c.layers[1].layout = Window(INT64_MAX); }, "must be in [1, 68719476736]"},
      {[](CacheConfig& c) { c.layers[0].layout.window_tokens = 5; },
       "layout full: window_tokens is 5, must be 0"},
      {[](CacheConfig& c) { c.layers[0].layout.sink_tokens = 5; },
       "layout full: sink_tokens is 5, must be 0"},
  };
  CacheConfig good = SmallConfig(Full(), StorageId::kPaged);
  good.layers.push_back(good.layers[0]);
  ASSERT_TRUE(ValidateCacheConfig(good).ok());
  for (const Bad& bad : cases) {
    CacheConfig config = good;
    bad.spoil(config);
    const Status status = ValidateCacheConfig(config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad.message;
    EXPECT_NE(status.message().find(bad.message), std::string::npos) << status.message();
    EXPECT_EQ(PlanCache(config, 1).status().message(), status.message());
    const auto created = SequenceCache::Create(config, std::make_shared<CacheMemory>());
    EXPECT_EQ(created.status().message(), status.message());
  }
}

TEST(ValidateCacheConfig, RefusesTransformsThatTheCodecOrTheShapeCannotHave) {
  const auto centre = [](size_t values, float value) {
    return std::make_shared<const std::vector<float>>(values, value);
  };
  CacheConfig good = SmallConfig(Full(), StorageId::kContiguous);
  LayerConfig& layer = good.layers[0];
  layer.kv_heads = 3;
  layer.shape = {.k_dim = 64, .v_dim = 32, .v_is_prefix_of_k = false};
  layer.k_codec = layer.v_codec = CodecId::kInt8;
  layer.k_transform = {true, centre(3 * 64, 1.0f)};
  layer.v_transform = {true, centre(3 * 32, 1.0f)};
  ASSERT_TRUE(ValidateCacheConfig(good).ok()) << ValidateCacheConfig(good).message();
  const int64_t bytes = PlanCache(good, 100)->total_bytes();
  const auto refusal = [](CacheConfig config, auto spoil) {
    spoil(config.layers[0]);
    const Status status = ValidateCacheConfig(config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(
      refusal(good, [](LayerConfig& l) { l.k_codec = CodecId::kF16; }),
      "cache configuration: layer 0: k_transform rotates rows of codec f16, only integer codecs gain by it");
  EXPECT_EQ(
      refusal(good,
              [](LayerConfig& l) {
                l.v_codec = CodecId::kF32;
                l.v_transform.rotate = false;
              }),
      "cache configuration: layer 0: v_transform centres rows of codec f32, only integer codecs gain by it");
  EXPECT_EQ(
      refusal(good, [&](LayerConfig& l) { l.v_transform.center = centre(64, 1.0f); }),
      "cache configuration: layer 0: v_transform has a centre of 64 values, must be 96 = 3 heads * 32 dims");
  EXPECT_EQ(refusal(good, [&](LayerConfig& l) { l.k_transform.center = centre(192, INFINITY); }),
            "cache configuration: layer 0: k_transform has a centre whose value 0 is inf, must be finite");
  EXPECT_EQ(refusal(good, [](LayerConfig& l) { l.shape.v_is_prefix_of_k = true; }),
            "cache configuration: layer 0: v_transform is set, must be none for a latent row: its V is the "
            "prefix of "
            "its K");
  layer.k_transform = layer.v_transform = {};
  EXPECT_EQ(PlanCache(good, 100)->total_bytes(), bytes) << "transforms take no bytes of the cache";
}

// The message is the same whichever storage the configuration asks for.
TEST(ValidateCacheConfig, BlockTokensAreCheckedThoughContiguousStorageDoesNotUseThem) {
  CacheConfig config = SmallConfig(Full(), StorageId::kContiguous);
  config.block_tokens = 17;
  EXPECT_EQ(ValidateCacheConfig(config).message(),
            "cache configuration: storage paged: block_tokens is 17, must be a power of two in [16, 256]");
  config.block_tokens = 64;
  EXPECT_TRUE(ValidateCacheConfig(config).ok());
}

TEST(RowBytes, IsHeadsTimesKPlusVForEveryPlainCodec) {
  LayerConfig layer = SmallConfig(Full(), StorageId::kContiguous).layers[0];
  layer.kv_heads = 3;
  layer.shape = {.k_dim = 64, .v_dim = 32, .v_is_prefix_of_k = false};
  layer.k_codec = layer.v_codec = CodecId::kF32;
  EXPECT_EQ(RowBytes(layer).value(), 3 * (64 + 32) * 4);
  layer.k_codec = layer.v_codec = CodecId::kF16;
  EXPECT_EQ(RowBytes(layer).value(), 3 * (64 + 32) * 2);
  layer.v_codec = CodecId::kF32;
  EXPECT_EQ(RowBytes(layer).value(), 3 * (64 * 2 + 32 * 4));
  layer.shape = {.k_dim = 64, .v_dim = 32, .v_is_prefix_of_k = true};  // stored once
  EXPECT_EQ(RowBytes(layer).value(), 3 * 64 * 2);
}

TEST(PlanCache, IsChunksOfAFullLayerInClosedForm) {
  const CacheConfig config = SmallConfig(Full(), StorageId::kContiguous);
  const int64_t row = RowBytes(config.layers[0]).value();
  EXPECT_EQ(PlanCache(config, 0)->total_bytes(), 0);
  EXPECT_EQ(PlanCache(config, 1)->row_bytes, 256 * row);
  EXPECT_EQ(PlanCache(config, 256)->row_bytes, 256 * row);
  EXPECT_EQ(PlanCache(config, 257)->row_bytes, 512 * row);
  EXPECT_EQ(PlanCache(config, 257)->metadata_bytes, 64);           // 8 entries
  EXPECT_EQ(PlanCache(config, 8 * 256 + 1)->metadata_bytes, 192);  // 8 + 16 entries
}

TEST(PlanCache, IsBlocksOfAPagedLayerInClosedForm) {
  CacheConfig config = SmallConfig(Full(), StorageId::kPaged);
  config.block_tokens = 32;
  const int64_t row = RowBytes(config.layers[0]).value();
  EXPECT_EQ(PlanCache(config, 33)->row_bytes, 64 * row);
  config.layers.push_back(config.layers[0]);
  EXPECT_EQ(PlanCache(config, 33)->row_bytes, 128 * row);
  EXPECT_EQ(PlanLayer(config, 1, 33)->row_bytes, 64 * row);
}

// The example of docs/formats/cache.md.
TEST(PlanCache, GivesTheFigureThatTheFormatPageWorksOut) {
  CacheConfig config = SmallConfig(Full(), StorageId::kContiguous);
  config.layers[0] = {.layout = Full(),
                      .k_codec = CodecId::kF16,
                      .v_codec = CodecId::kF16,
                      .shape = {.k_dim = 64, .v_dim = 64, .v_is_prefix_of_k = false},
                      .kv_heads = 3};
  config.layers.resize(30, config.layers[0]);
  EXPECT_EQ(PlanCache(config, 300)->total_bytes(), 11'798'400);
}

// window + sinks + stated slack, whatever the codec and however long the text.
TEST(PlanCache, AWindowStopsGrowing) {
  for (const CodecId codec : AllCodecs()) {
    CacheConfig config = SmallConfig(Window(20, 3), StorageId::kContiguous, 16);
    config.layers[0].k_codec = config.layers[0].v_codec = codec;
    const int64_t row = RowBytes(config.layers[0]).value();
    const int64_t rows = 16 + 64;  // 3 sinks -> 16; 20 + 16 + 15 = 51 -> 64
    EXPECT_EQ(PlanCache(config, 80)->row_bytes, rows * row);
    EXPECT_EQ(PlanCache(config, 4096)->row_bytes, rows * row);
  }
}

TEST(PlanCache, RefusesLengthsAndLayersOutsideTheConfiguration) {
  const CacheConfig config = SmallConfig(Full(), StorageId::kContiguous);
  EXPECT_FALSE(PlanCache(config, -1).ok());
  EXPECT_FALSE(PlanCache(config, 4097).ok());
  EXPECT_FALSE(PlanLayer(config, 1, 8).ok());
  EXPECT_FALSE(PlanLayer(config, -1, 8).ok());
}

TEST(PlanCache, ASumPast63BitsIsAnErrorNotAWrap) {
  CacheConfig config = SmallConfig(Full(), StorageId::kPaged);
  config.max_context = kMaxContextTokens;
  config.layers[0].kv_heads = kMaxKvHeads;
  config.layers[0].shape = {.k_dim = 1024, .v_dim = 1024, .v_is_prefix_of_k = false};
  ASSERT_TRUE(PlanCache(config, kMaxContextTokens).ok());
  config.layers.resize(kMaxLayers, config.layers[0]);
  EXPECT_EQ(PlanCache(config, kMaxContextTokens).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace holdfast
