// The bounds of a layer's pages: right for every page that is full, whatever was appended, taken back, forked or written
// over before, and counted wherever bytes are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include "cache/span_cache.h"
#include "cache/testing_cache.h"
#include "codec/codec.h"
#include "span/decode_row.h"
#include "span/page_bounds.h"

namespace holdfast {
namespace {

using Cell = std::tuple<CodecId, StorageId, bool>;

CacheConfig ConfigOf(const Cell& cell) {
  CacheConfig config = testing::SmallConfig(testing::Full(), std::get<1>(cell), 16);
  config.block_tokens = 32;
  LayerConfig& layer = config.layers[0];
  layer.k_codec = layer.v_codec = std::get<0>(cell);
  layer.shape = std::get<2>(cell) ? RowShape{40, 24, true} : RowShape{40, 16, false};
  layer.sparse_pages = kMinSparsePages;
  return config;
}

// Rows that no two appends have in common.
void Append(SpanCache& cache, int64_t tokens, std::mt19937_64& random) {
  const LayerConfig& layer = cache.config();
  std::vector<float> k(static_cast<size_t>(tokens * layer.kv_heads * layer.shape.k_dim));
  std::vector<float> v(static_cast<size_t>(tokens * layer.kv_heads * layer.shape.v_dim));
  for (float& x : k) x = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  for (float& x : v) x = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  ASSERT_TRUE(cache.Append(tokens, k.data(), v.data()).ok());
}

void ExpectBounds(const SpanCache& cache) {
  const LayerConfig& layer = cache.config();
  const int dim = layer.shape.k_dim;
  std::vector<Span> spans;
  cache.AppendLiveSpans(spans);
  std::vector<float> row(static_cast<size_t>(dim)), lowest(row), highest(row);
  int64_t pages = 0;
  for (const Span& span : spans) {
    for (int64_t page = span.begin / kTileRows; (page + 1) * kTileRows <= span.end(); ++page, ++pages) {
      for (int64_t head = 0; head < layer.kv_heads; ++head) {
        std::vector<float> least(row.size(), 1e9f), most(row.size(), -1e9f);
        for (int64_t p = page * kTileRows; p < (page + 1) * kTileRows; ++p) {
          DecodeKey(span, layer.k_codec, dim, p, head, row.data());
          for (size_t d = 0; d < row.size(); ++d) {
            least[d] = std::min(least[d], row[d]);
            most[d] = std::max(most[d], row[d]);
          }
        }
        ReadPageBounds(span.bounds + head * span.bounds_head_stride_bytes +
                           (page - span.begin / kTileRows) * PageBoundsBytes(dim),
                       dim, lowest.data(), highest.data());
        for (size_t d = 0; d < row.size(); ++d) {
          const float step = 0x1p-10f * std::max(std::fabs(least[d]), std::fabs(most[d])) + 0x1p-24f;
          ASSERT_TRUE(lowest[d] <= least[d] && least[d] - lowest[d] < step &&  //
                      highest[d] >= most[d] && highest[d] - most[d] < step)
              << "page " << page << ", head " << head << ", dim " << d << ": " << lowest[d] << ".."
              << highest[d] << " for " << least[d] << ".." << most[d];
        }
      }
    }
  }
  ASSERT_EQ(pages, cache.length() / kTileRows);
}

class PageBoundsInTheCache : public ::testing::TestWithParam<Cell> {};

TEST_P(PageBoundsInTheCache, HoldForEveryFullPageAfterAppendsRewindsAndForks) {
  const CacheConfig config = ConfigOf(GetParam());
  const auto memory = std::make_shared<CacheMemory>();
  const auto cache = std::move(SpanCache::Create(config, 0, memory)).value();
  std::mt19937_64 random(3);
  for (const int64_t tokens : {1, 15, 16, 5, 300, 2, 31}) Append(*cache, tokens, random);
  ExpectBounds(*cache);
  EXPECT_EQ(cache->bytes(), *PlanLayer(config, 0, cache->length()));
  EXPECT_EQ(cache->bytes().total_bytes(), memory->allocated_bytes());
  ASSERT_TRUE(cache->Rewind(9).ok());  // into a page that was full
  Append(*cache, 3, random);
  Append(*cache, 20, random);
  ExpectBounds(*cache);
  const auto fork = std::move(cache->Fork()).value();
  ASSERT_TRUE(cache->Rewind(13).ok());
  Append(*cache, 40, random);
  ExpectBounds(*cache);
  ExpectBounds(*fork);
  ASSERT_TRUE(fork->Rewind(1).ok());
  Append(*fork, 50, random);
  ExpectBounds(*fork);
  ExpectBounds(*cache);
}

TEST_P(PageBoundsInTheCache, AreThe16thOfARowThatTheFormulaSays) {
  CacheConfig config = ConfigOf(GetParam());
  const int64_t with = *RowBytes(config.layers[0]);
  config.layers[0].sparse_pages = 0;
  EXPECT_EQ(with - *RowBytes(config.layers[0]), 2 * 4 * 48 / 16)
      << "2 heads, 40 dims padded to 48, two f16 each";
}

std::vector<Cell> Cells() {
  std::vector<Cell> cells;
  for (const CodecId codec : AllCodecs()) {
    for (const StorageId storage : AllStorages()) {
      for (const bool latent : {false, true}) cells.emplace_back(codec, storage, latent);
    }
  }
  return cells;
}

std::string NameOf(const ::testing::TestParamInfo<Cell>& cell) {
  const auto& [codec, storage, latent] = cell.param;
  return std::string(CodecName(codec)) + "_" + std::string(StorageName(storage)) + (latent ? "_latent" : "");
}

INSTANTIATE_TEST_SUITE_P(Every, PageBoundsInTheCache, ::testing::ValuesIn(Cells()), NameOf);

TEST(SparsePagesConfig, RefusesTooFewPagesAndLayoutsThatChooseNone) {
  CacheConfig config = testing::SmallConfig(testing::Full(), StorageId::kContiguous);
  for (const int64_t pages : {int64_t{-1}, int64_t{1}, kMinSparsePages - 1, kMaxSparsePages + 1}) {
    config.layers[0].sparse_pages = pages;
    EXPECT_EQ(ValidateCacheConfig(config).message(), "cache configuration: layer 0: sparse_pages is " +
                                                         std::to_string(pages) + ", must be in [8, 65536]");
  }
  config.layers[0].sparse_pages = kMinSparsePages;
  EXPECT_TRUE(ValidateCacheConfig(config).ok());
  config.layers[0].layout = testing::Window(20);
  EXPECT_EQ(
      ValidateCacheConfig(config).message(),
      "cache configuration: layer 0: sparse_pages is 8, must be 0: the layout is window, only layout full "
      "chooses pages");
}

TEST(SparsePagesConfig, ValuesThatABoundCannotCarryAreRefusedAndNamed) {
  CacheConfig config = testing::SmallConfig(testing::Full(), StorageId::kContiguous);
  config.layers[0].sparse_pages = kMinSparsePages;
  const auto cache = std::move(SpanCache::Create(config, 0, std::make_shared<CacheMemory>())).value();
  std::vector<float> rows(2 * 2 * 8, 1.0f);
  rows[2 * 8 + 8 + 3] = -70000.0f;
  EXPECT_EQ(cache->Append(2, rows.data(), rows.data()).message(),
            "append: K value -70000 at position 1, head 1, dim 3: sparse pages carry values up to 65504");
  EXPECT_EQ(cache->length(), 0);
}

TEST(SparsePagesConfig, ProtectedRowsKeepNoBounds) {
  CacheConfig config = testing::SmallConfig(testing::Full(), StorageId::kContiguous);
  config.layers[0].sparse_pages = kMinSparsePages;
  config.layers[0].k_codec = config.layers[0].v_codec = CodecId::kInt8;
  config.layers[0].protection.recent_tokens = 24;
  const auto cache = std::move(SpanCache::Create(config, 0, std::make_shared<CacheMemory>())).value();
  ASSERT_TRUE(testing::AppendTokens(*cache, 100).ok());
  ExpectBounds(*cache);
  std::vector<Span> spans;
  cache->protected_rows()->AppendLiveSpans(spans);
  for (const Span& span : spans) EXPECT_EQ(span.bounds, nullptr);
  EXPECT_EQ(cache->bytes(), *PlanLayer(config, 0, 100));
}

}  // namespace
}  // namespace holdfast
