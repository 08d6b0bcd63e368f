#include "cache/span_cache.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "cache/testing_cache.h"

namespace holdfast {
namespace {

using testing::AppendTokens;
using testing::Full;
using testing::LiveRows;
using testing::ReadRows;
using testing::Rows;
using testing::SmallConfig;
using testing::Window;

std::unique_ptr<SpanCache> Make(const CacheConfig& config,
                                std::shared_ptr<CacheMemory> memory = std::make_shared<CacheMemory>()) {
  EXPECT_TRUE(ValidateCacheConfig(config).ok()) << ValidateCacheConfig(config).message();
  return std::move(SpanCache::Create(config, 0, std::move(memory))).value();
}

class SpanCacheInEveryStorage : public ::testing::TestWithParam<StorageId> {
 protected:
  CacheConfig Config(const LayoutConfig& layout, int rewind_tokens = 0) {
    return SmallConfig(layout, GetParam(), rewind_tokens);
  }
};

TEST_P(SpanCacheInEveryStorage, AFullCacheDeliversEveryRowInOrder) {
  const auto cache = Make(Config(Full()));
  ASSERT_TRUE(AppendTokens(*cache, 700, 33).ok());
  for (int head = 0; head < 2; ++head) {
    const LiveRows rows = ReadRows(*cache, 699, head);
    ASSERT_EQ(rows.positions.size(), 700u);
    for (int64_t p = 0; p < 700; ++p) {
      ASSERT_EQ(rows.positions[static_cast<size_t>(p)], p);
      ASSERT_EQ(rows.k[static_cast<size_t>(p)][7], testing::RowValue(p, head, 7));
      ASSERT_EQ(rows.v[static_cast<size_t>(p)][5], testing::RowValue(p, head, 5) - 100.0f);
    }
  }
}

// What a query sees of a rotating cache is what it would see of a cache that kept everything.
TEST_P(SpanCacheInEveryStorage, AWindowDeliversSinksAndWindowAtEveryLength) {
  const auto cache = Make(Config(Window(20, 3), 5));
  for (int64_t length = 1; length < 400; ++length) {
    ASSERT_TRUE(AppendTokens(*cache, 1).ok());
    const VisibleRange seen = cache->visible(length - 1);
    const LiveRows rows = ReadRows(*cache, length - 1, 1);
    std::vector<int64_t> expected;
    for (int64_t p = 0; p < length; ++p) {
      if (seen.Sees(p)) expected.push_back(p);
    }
    ASSERT_EQ(rows.positions, expected);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(rows.k[i][3], testing::RowValue(expected[i], 1, 3)) << "length " << length;
      ASSERT_EQ(rows.v[i][3], testing::RowValue(expected[i], 1, 3) - 100.0f) << "length " << length;
    }
  }
}

TEST_P(SpanCacheInEveryStorage, ManyTokensAtOnceEqualOneByOne) {
  for (const LayoutConfig& layout : {Full(), Window(30, 2)}) {
    const auto one = Make(Config(layout, 4));
    const auto many = Make(Config(layout, 4));
    ASSERT_TRUE(AppendTokens(*one, 333, 1).ok());
    ASSERT_TRUE(AppendTokens(*many, 333).ok());
    EXPECT_EQ(ReadRows(*one, 332, 0), ReadRows(*many, 332, 0));
    EXPECT_EQ(one->bytes(), many->bytes());
  }
}

TEST_P(SpanCacheInEveryStorage, AnAppendTooLongForAWindowSaysHowManyItTakes) {
  const auto cache = Make(Config(Window(8)));
  const int64_t most = cache->max_append();
  const auto rows = Rows(0, most + 1, 2, 8);
  const Status status = cache->Append(most + 1, rows.data(), rows.data());
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("at most " + std::to_string(most)), std::string::npos) << status.message();
  EXPECT_EQ(cache->length(), 0);
  EXPECT_EQ(cache->bytes().total_bytes(), 0);
  EXPECT_TRUE(cache->Append(most, rows.data(), rows.data()).ok());
}

TEST_P(SpanCacheInEveryStorage, AppendPastMaxContextIsAnErrorAndChangesNothing) {
  CacheConfig config = Config(Full());
  config.max_context = 10;
  const auto cache = Make(config);
  ASSERT_TRUE(AppendTokens(*cache, 8).ok());
  const LiveRows before = ReadRows(*cache, 7, 0);
  const Status status = AppendTokens(*cache, 3);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(), "append: 3 tokens at length 8 pass max_context 10");
  EXPECT_EQ(cache->length(), 8);
  EXPECT_EQ(ReadRows(*cache, 7, 0), before);
  EXPECT_TRUE(AppendTokens(*cache, 2).ok());
  EXPECT_EQ(cache->Append(0, nullptr, nullptr).code(), StatusCode::kInvalidArgument);
}

TEST_P(SpanCacheInEveryStorage, AValueTheCodecCannotCarryIsNamedAndChangesNothing) {
  for (const CodecId codec : AllCodecs()) {
    CacheConfig config = Config(Full());
    config.layers[0].k_codec = config.layers[0].v_codec = codec;
    const auto cache = Make(config);
    ASSERT_TRUE(AppendTokens(*cache, 5).ok());
    const LiveRows before = ReadRows(*cache, 4, 0);
    const auto good_k = Rows(5, 20, 2, 8);
    const auto good_v = Rows(5, 20, 2, 6);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      auto k = good_k;
      k[(13 * 2 + 1) * 8 + 6] = bad;  // token 13, head 1, dim 6
      Status status = cache->Append(20, k.data(), good_v.data());
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(status.message().find("at position 18, head 1, dim 6: codec "), std::string::npos)
          << status.message();
      auto v = good_v;
      v[(2 * 2 + 0) * 6 + 1] = bad;
      status = cache->Append(20, good_k.data(), v.data());
      EXPECT_NE(status.message().find("append: V value"), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("at position 7, head 0, dim 1"), std::string::npos) << status.message();
    }
    EXPECT_EQ(cache->length(), 5);
    EXPECT_EQ(ReadRows(*cache, 4, 0), before);
    EXPECT_EQ(cache->bytes(), PlanLayer(config, 0, 5).value());
  }
}

// Case 4 of the field (mlx-vlm#1715, ORT#2334): a wrapped ring without slack cannot be rewound, and says so.
TEST_P(SpanCacheInEveryStorage, RewindOfAWrappedRingWithoutSlackIsRefusedAndChangesNothing) {
  const auto cache = Make(Config(Window(4), 0));
  ASSERT_TRUE(AppendTokens(*cache, 10, 1).ok());
  const LiveRows before = ReadRows(*cache, 9, 0);
  const Status status = cache->Rewind(2);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("2 tokens from length 10, at most 0"), std::string::npos)
      << status.message();
  EXPECT_EQ(cache->length(), 10);
  EXPECT_EQ(ReadRows(*cache, 9, 0), before);
}

TEST_P(SpanCacheInEveryStorage, RewindWithinTheSlackEqualsACacheThatNeverSawTheTokens) {
  for (const int64_t length : {10, 33, 100, 257}) {
    const auto cache = Make(Config(Window(4), 2));
    const auto cold = Make(Config(Window(4), 2));
    ASSERT_TRUE(AppendTokens(*cache, length, 1, 3.0f).ok());
    ASSERT_TRUE(AppendTokens(*cold, length, 1, 3.0f).ok());
    ASSERT_TRUE(AppendTokens(*cache, 2, 1, 9.0f).ok());
    ASSERT_TRUE(cache->Rewind(2).ok());
    EXPECT_EQ(cache->bytes(), cold->bytes());
    EXPECT_EQ(ReadRows(*cache, length - 1, 0), ReadRows(*cold, length - 1, 0));
    ASSERT_TRUE(AppendTokens(*cache, 7, 3).ok());
    ASSERT_TRUE(AppendTokens(*cold, 7, 3).ok());
    EXPECT_EQ(ReadRows(*cache, length + 4, 1), ReadRows(*cold, length + 4, 1));
  }
}

TEST_P(SpanCacheInEveryStorage, ARewindDoesNotBringBackTheGuaranteeOfRowsGivenUp) {
  const auto cache = Make(Config(Window(4), 2));
  ASSERT_TRUE(AppendTokens(*cache, 20, 1).ok());
  EXPECT_EQ(cache->rewindable(), 2);
  ASSERT_TRUE(cache->Rewind(1).ok());
  EXPECT_EQ(cache->rewindable(), 1);
  EXPECT_EQ(std::move(cache->Fork()).value()->rewindable(), 1);
  ASSERT_TRUE(AppendTokens(*cache, 5, 1).ok());
  EXPECT_EQ(cache->rewindable(), 2);
  cache->Clear();
  ASSERT_TRUE(AppendTokens(*cache, 5, 1).ok());
  EXPECT_EQ(cache->rewindable(), 5);
}

TEST_P(SpanCacheInEveryStorage, UntilSomethingIsGivenUpAnyRewindGoes) {
  const auto ring = Make(Config(Window(4), 2));
  ASSERT_TRUE(AppendTokens(*ring, 6).ok());
  EXPECT_EQ(ring->rewindable(), 6);
  ASSERT_TRUE(AppendTokens(*ring, 1).ok());
  EXPECT_EQ(ring->rewindable(), 2);
  const auto sinks = Make(Config(Window(4, 3), 2));
  ASSERT_TRUE(AppendTokens(*sinks, 9).ok());  // rows 0 to 2 are sinks, 3 is in reach
  EXPECT_EQ(sinks->rewindable(), 9);
  const auto full = Make(Config(Full()));
  ASSERT_TRUE(AppendTokens(*full, 600).ok());
  EXPECT_EQ(full->rewindable(), 600);
  ASSERT_TRUE(full->Rewind(600).ok());
  EXPECT_EQ(full->bytes().total_bytes(), 0);
  EXPECT_EQ(full->Rewind(1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(full->Rewind(-1).code(), StatusCode::kInvalidArgument);
}

TEST_P(SpanCacheInEveryStorage, AForkAndItsParentGoTheirOwnWays) {
  for (const LayoutConfig& layout : {Full(), Window(20, 3)}) {
    const CacheConfig config = Config(layout, 4);
    const auto parent = Make(config);
    ASSERT_TRUE(AppendTokens(*parent, 101, 7).ok());
    const auto fork = std::move(parent->Fork()).value();
    ASSERT_TRUE(AppendTokens(*parent, 90, 7, 1.0f).ok());
    ASSERT_TRUE(fork->Rewind(3).ok());
    ASSERT_TRUE(AppendTokens(*fork, 60, 5, 2.0f).ok());
    const auto cold = Make(config);
    ASSERT_TRUE(AppendTokens(*cold, 98).ok());
    ASSERT_TRUE(AppendTokens(*cold, 60, 1 << 30, 2.0f).ok());
    EXPECT_EQ(ReadRows(*fork, 157, 1), ReadRows(*cold, 157, 1));
    const auto cold_parent = Make(config);
    ASSERT_TRUE(AppendTokens(*cold_parent, 101).ok());
    ASSERT_TRUE(AppendTokens(*cold_parent, 90, 1 << 30, 1.0f).ok());
    EXPECT_EQ(ReadRows(*parent, 190, 1), ReadRows(*cold_parent, 190, 1));
  }
}

TEST_P(SpanCacheInEveryStorage, AppendMovesNoRowThatIsStored) {
  const auto cache = Make(Config(Full()));
  ASSERT_TRUE(AppendTokens(*cache, 300).ok());
  std::vector<Span> before;
  cache->AppendSpans(299, before);
  ASSERT_TRUE(AppendTokens(*cache, 3000).ok());
  std::vector<Span> after;
  cache->AppendSpans(3299, after);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].k, before[i].k);
    EXPECT_EQ(after[i].v, before[i].v);
  }
}

TEST_P(SpanCacheInEveryStorage, ALatentRowIsStoredOnce) {
  CacheConfig config = Config(Full());
  config.layers[0].shape = {.k_dim = 24, .v_dim = 16, .v_is_prefix_of_k = true};
  config.layers[0].kv_heads = 1;
  const auto cache = Make(config);
  const auto k = Rows(0, 40, 1, 24);
  ASSERT_TRUE(cache->Append(40, k.data(), nullptr).ok());
  const LiveRows rows = ReadRows(*cache, 39, 0);
  ASSERT_EQ(rows.k.size(), 40u);
  EXPECT_TRUE(rows.v.empty());
  EXPECT_EQ(rows.k[39][23], testing::RowValue(39, 0, 23));
  EXPECT_EQ(cache->live_bytes(), 40 * 24 * 4);
}

// Case 32 of the field (mlx-swift-lm#67): a codec that was accepted makes the footprint its formula says.
TEST_P(SpanCacheInEveryStorage, LiveAndAllocatedBytesFollowTheFormulaForEveryCodec) {
  for (const CodecId k_codec : AllCodecs()) {
    for (const CodecId v_codec : AllCodecs()) {
      CacheConfig config = Config(Full());
      config.layers[0].k_codec = k_codec;
      config.layers[0].v_codec = v_codec;
      const auto memory = std::make_shared<CacheMemory>();
      const auto cache = Make(config, memory);
      const int64_t row = 2 * (GetCodec(k_codec).k_tile_bytes(8) + GetCodec(v_codec).v_tile_bytes(6)) / 16;
      EXPECT_EQ(RowBytes(config.layers[0]).value(), row);
      for (const int64_t tokens : {1, 15, 16, 240, 100}) {
        ASSERT_TRUE(AppendTokens(*cache, tokens).ok());
        const int64_t granule = GetParam() == StorageId::kPaged ? 16 : 256;
        const int64_t rows = (cache->length() + granule - 1) / granule * granule;
        EXPECT_EQ(cache->live_bytes(), cache->length() * row);
        EXPECT_EQ(cache->bytes().row_bytes, rows * row);
        EXPECT_EQ(memory->allocated_bytes(), cache->bytes().total_bytes());
      }
    }
  }
}

// Case 35 of the field (ORT#980): the longest context costs nothing until it is used.
TEST_P(SpanCacheInEveryStorage, AContextOfTenMillionWithEightTokensTakesOneChunk) {
  CacheConfig config = Config(Full());
  config.max_context = 10'485'760;
  const auto memory = std::make_shared<CacheMemory>();
  const auto cache = Make(config, memory);
  EXPECT_EQ(memory->allocated_bytes(), 0);
  ASSERT_TRUE(AppendTokens(*cache, 8).ok());
  const int64_t one_chunk_rows = GetParam() == StorageId::kPaged ? 16 : 256;
  EXPECT_EQ(cache->bytes().row_bytes, one_chunk_rows * RowBytes(config.layers[0]).value());
  EXPECT_EQ(memory->allocated_bytes(), cache->bytes().total_bytes());
}

INSTANTIATE_TEST_SUITE_P(All, SpanCacheInEveryStorage, ::testing::ValuesIn(AllStorages()),
                         [](const auto& param) { return std::string(StorageName(param.param)); });

TEST(PagedWindow, ANewLapTakesAFreshBlockFromAForkInsteadOfCopying) {
  const CacheConfig config = SmallConfig(Window(16), StorageId::kPaged);  // ring of 32 rows, blocks of 16
  const auto memory = std::make_shared<CacheMemory>();
  const auto cache = Make(config, memory);
  ASSERT_TRUE(AppendTokens(*cache, 32).ok());
  BlockPool& pool = memory->pool(MakeTileGeometry(config.layers[0]).BytesForRows(16));
  const auto fork = std::move(cache->Fork()).value();
  EXPECT_EQ(pool.live_blocks(), 2);
  ASSERT_TRUE(AppendTokens(*cache, 1).ok());  // position 32 enters the block of 0..15, dead at length 32
  EXPECT_EQ(pool.live_blocks(), 3);
  std::vector<Span> spans;
  cache->AppendSpans(32, spans);
  ASSERT_EQ(spans.size(), 2u);
  const TileGeometry tiles = MakeTileGeometry(config.layers[0]);
  const int64_t one_row = tiles.k_tile_bytes / 16;
  bool rest_is_empty = true;
  for (int64_t i = one_row; i < tiles.k_tile_bytes; i += one_row)
    rest_is_empty &= spans[1].k[i] == std::byte{0};
  EXPECT_TRUE(rest_is_empty);
  EXPECT_EQ(ReadRows(*fork, 31, 0).k[0][2], testing::RowValue(16, 0, 2));
}

}  // namespace
}  // namespace holdfast
