// Failures that users of other engines reported, as small inputs with their right answers: those of a cache
// alone. Cases 1, 4 and 32 are beside their sources (layout_test, span_cache_test), 29 once more with
// attention in batch_test.
#include <gtest/gtest.h>

#include <cstring>

#include "cache/sequence_cache.h"
#include "span/decode_row.h"

namespace holdfast {
namespace {

CacheConfig Config(int layers, int kv_heads, int dim, CodecId codec, StorageId storage, int64_t max_context) {
  const LayerConfig layer = {.layout = {},
                             .k_codec = codec,
                             .v_codec = codec,
                             .shape = {.k_dim = dim, .v_dim = dim, .v_is_prefix_of_k = false},
                             .kv_heads = kv_heads};
  return {.layers = std::vector<LayerConfig>(static_cast<size_t>(layers), layer),
          .storage = storage,
          .block_tokens = kDefaultBlockTokens,
          .max_context = max_context,
          .rewind_tokens = kDefaultRewindTokens};
}

std::unique_ptr<SequenceCache> Make(const CacheConfig& config, const std::shared_ptr<CacheMemory>& memory) {
  return std::move(SequenceCache::Create(config, memory)).value();
}

void Append(SequenceCache& sequence, int64_t tokens, float value) {
  const LayerConfig& layer = sequence.config().layers[0];
  std::vector<float> rows(static_cast<size_t>(tokens * layer.kv_heads * layer.shape.k_dim));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = value / static_cast<float>(1 + i % 7);
  ASSERT_TRUE(sequence.BeginStep(tokens).ok());
  for (int i = 0; i < sequence.layers(); ++i) {
    ASSERT_TRUE(sequence.layer(LayerId{i}).Append(tokens, rows.data(), rows.data()).ok());
  }
  ASSERT_TRUE(sequence.CommitStep().ok());
}

// Every byte of every tile that holds a row, scales included.
std::vector<std::byte> Bytes(const SequenceCache& sequence) {
  std::vector<std::byte> all;
  const LayerConfig& layer = sequence.config().layers[0];
  const int64_t k_tile = GetCodec(layer.k_codec).k_tile_bytes(layer.shape.k_dim);
  const int64_t v_tile = GetCodec(layer.v_codec).v_tile_bytes(layer.shape.v_dim);
  std::vector<Span> spans;
  sequence.layer(LayerId{0}).AppendSpans(sequence.length() - 1, spans);
  for (const Span& span : spans) {
    const int64_t tiles = (span.end() - 1) / kTileRows - span.begin / kTileRows + 1;
    for (int head = 0; head < layer.kv_heads; ++head) {
      const std::byte* k = span.k + head * span.k_head_stride_bytes;
      const std::byte* v = span.v + head * span.v_head_stride_bytes;
      all.insert(all.end(), k, k + tiles * k_tile);
      all.insert(all.end(), v, v + tiles * v_tile);
    }
  }
  return all;
}

class CacheCases : public ::testing::TestWithParam<StorageId> {};

// Case 29 (openvino#37381: 8-bit scales went stale when a batch grew).
TEST_P(CacheCases, ASequenceJoiningLeavesTheEncodedRowsAndScalesOfTheOthersAlone) {
  const CacheConfig config = Config(1, 2, 64, CodecId::kInt8, GetParam(), 4096);
  const auto memory = std::make_shared<CacheMemory>();
  const auto first = Make(config, memory);
  const auto second = Make(config, memory);
  Append(*first, 37, 1.0f);
  Append(*second, 300, 50.0f);
  const auto first_before = Bytes(*first);
  const auto second_before = Bytes(*second);
  const auto third = Make(config, memory);
  Append(*third, 500, 1000.0f);
  EXPECT_EQ(Bytes(*first), first_before);
  EXPECT_EQ(Bytes(*second), second_before);
}

// Case 35 (ORT#980: the longest context was allocated up front).
TEST_P(CacheCases, TenMillionPositionsWithEightTokensHoldAtMostOneBlockALayer) {
  const CacheConfig config = Config(32, 8, 128, CodecId::kF16, GetParam(), 10'485'760);
  const auto memory = std::make_shared<CacheMemory>();
  const auto sequence = Make(config, memory);
  Append(*sequence, 8, 1.0f);
  const int64_t block_rows = GetParam() == StorageId::kPaged ? kDefaultBlockTokens : 256;
  EXPECT_EQ(sequence->bytes().row_bytes, 32 * block_rows * RowBytes(config.layers[0]).value());
  EXPECT_EQ(memory->allocated_bytes(), sequence->bytes().total_bytes());
}

// Case 36 (vLLM#1514: 32-bit offsets overflowed). 10.7 GB of rows are allocated, and none but the last of
// each layer is written, so that the system gives memory for those alone.
TEST_P(CacheCases, TheLastRowOfACacheFarPast4GiBComesBack) {
  constexpr int kLayers = 80, kHeads = 8, kDim = 128;
  constexpr int64_t kTokens = 32768;
  CacheConfig config = Config(kLayers, kHeads, kDim, CodecId::kF16, GetParam(), kTokens);
  config.block_tokens = 256;
  const auto memory = std::make_shared<CacheMemory>();
  const auto sequence = Make(config, memory);
  std::vector<float> k(kHeads * kDim), v(kHeads * kDim);
  ASSERT_TRUE(sequence->BeginStep(kTokens).ok());
  EXPECT_EQ(sequence->bytes().row_bytes, int64_t{10} << 30);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int i = 0; i < kHeads * kDim; ++i) {
      k[static_cast<size_t>(i)] = static_cast<float>(layer * 16 + i % 13);
      v[static_cast<size_t>(i)] = -static_cast<float>(layer * 16 + i % 11);
    }
    SpanCache& cache = sequence->layer(LayerId{layer});
    cache.EncodeRows(kTokens - 1, 1, 0, kHeads, k.data(), v.data());
    cache.Advance(kTokens);
  }
  ASSERT_TRUE(sequence->CommitStep().ok());
  EXPECT_EQ(sequence->bytes(), PlanCache(config, kTokens).value());
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<Span> spans;
    sequence->layer(LayerId{layer}).AppendSpans(kTokens - 1, spans);
    const Span& last = spans.back();
    ASSERT_EQ(last.end(), kTokens);
    for (int head = 0; head < kHeads; ++head) {
      float row[kDim];
      DecodeKey(last, CodecId::kF16, kDim, kTokens - 1, head, row);
      for (int d = 0; d < kDim; ++d) {
        ASSERT_EQ(row[d], static_cast<float>(layer * 16 + (head * kDim + d) % 13));
      }
      DecodeValue(last, CodecId::kF16, kDim, kTokens - 1, head, row);
      for (int d = 0; d < kDim; ++d) {
        ASSERT_EQ(row[d], -static_cast<float>(layer * 16 + (head * kDim + d) % 11));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CacheCases, ::testing::ValuesIn(AllStorages()),
                         [](const auto& param) { return std::string(StorageName(param.param)); });

}  // namespace
}  // namespace holdfast
