#include "kv/batch.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace holdfast {
namespace {

constexpr int kKvHeads = 2;
constexpr int kQHeads = 4;
constexpr int kKDim = 24;
constexpr int kVDim = 20;

// A value in [-1, 1) from its coordinates.
float Noise(int64_t a, int64_t b, int64_t c) {
  auto x = static_cast<uint64_t>(a * 1000003 + b * 10007 + c) * 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return static_cast<float>(static_cast<int64_t>(x >> 40)) / 8388608.0f - 1.0f;
}

std::vector<float> Fill(int64_t salt, int64_t position, int64_t tokens, int64_t row) {
  std::vector<float> values;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < row; ++i) values.push_back(Noise(salt, position + t, i));
  }
  return values;
}

CacheConfig Config(CodecId codec, StorageId storage) {
  const LayerConfig full = {.layout = {},
                            .k_codec = codec,
                            .v_codec = codec,
                            .shape = {.k_dim = kKDim, .v_dim = kVDim, .v_is_prefix_of_k = false},
                            .kv_heads = kKvHeads};
  LayerConfig window = full;
  window.layout = {.id = LayoutId::kWindow, .window_tokens = 24, .sink_tokens = 2};
  return {.layers = {full, window},
          .storage = storage,
          .block_tokens = 16,
          .max_context = 2000,
          .rewind_tokens = 4};
}

// Sequence number `salt` of the test: its rows and queries are functions of salt and position.
struct Text {
  int64_t salt;
  std::unique_ptr<SequenceCache> cache;
};

class Harness {
 public:
  Harness() : pool_(std::move(ThreadPool::Create(2)).value()) {}

  std::unique_ptr<SequenceCache> NewCache(const CacheConfig& config) {
    return std::move(SequenceCache::Create(config, memory_)).value();
  }

  Result<KvBatch> Begin(std::vector<BatchSlice> slices) { return KvBatch::Begin(slices, workspace_, *pool_); }

  // Steps `tokens[i]` of texts[i] in one batch; the layers' outputs one after the other.
  std::vector<float> Step(std::vector<Text*> texts, std::vector<int64_t> tokens) {
    std::vector<BatchSlice> slices;
    std::vector<float> q, k, v;
    const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (size_t i = 0; i < texts.size(); ++i) {
      const int64_t length = texts[i]->cache->length();
      slices.push_back({texts[i]->cache.get(), tokens[i]});
      append(q, Fill(texts[i]->salt, length, tokens[i], kQHeads * kKDim));
      append(k, Fill(texts[i]->salt + 100, length, tokens[i], kKvHeads * kKDim));
      append(v, Fill(texts[i]->salt + 200, length, tokens[i], kKvHeads * kVDim));
    }
    Result<KvBatch> batch = Begin(slices);
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    std::vector<float> outputs;
    for (const int layer : {1, 0}) {
      std::vector<float> out(static_cast<size_t>(batch->tokens()) * kQHeads * kVDim);
      const Status status =
          batch->Attend(LayerId{layer}, kQHeads, q.data(), k.data(), v.data(), {.scale = 0.5f}, out.data());
      EXPECT_TRUE(status.ok()) << status.message();
      append(outputs, out);
    }
    EXPECT_TRUE(batch->Commit().ok());
    return outputs;
  }

 private:
  std::shared_ptr<CacheMemory> memory_ = std::make_shared<CacheMemory>();
  std::unique_ptr<ThreadPool> pool_;
  AttentionWorkspace workspace_;
};

// Attention over everything the query at `position` of text `salt` sees, in double.
std::vector<double> Expected(int64_t salt, const VisibleRange& seen, int64_t position, int q_head) {
  const int head = q_head / (kQHeads / kKvHeads);
  std::vector<double> sum(kVDim, 0.0);
  double weights = 0.0;
  for (int64_t p = 0; p <= position; ++p) {
    if (!seen.Sees(p)) continue;
    double score = 0.0;
    for (int d = 0; d < kKDim; ++d) {
      score += static_cast<double>(Noise(salt, position, q_head * kKDim + d)) *
               static_cast<double>(Noise(salt + 100, p, head * kKDim + d));
    }
    const double weight = std::exp(0.5 * score);
    weights += weight;
    for (int d = 0; d < kVDim; ++d) {
      sum[static_cast<size_t>(d)] += weight * static_cast<double>(Noise(salt + 200, p, head * kVDim + d));
    }
  }
  for (double& x : sum) x /= weights;
  return sum;
}

class BatchInEveryStorage : public ::testing::TestWithParam<StorageId> {
 protected:
  Harness harness_;
};

TEST_P(BatchInEveryStorage, OneCallAppendsAndAttendsFullAndWindowLayersOfSeveralSequences) {
  const CacheConfig config = Config(CodecId::kF32, GetParam());
  Text a{1, harness_.NewCache(config)};
  Text b{2, harness_.NewCache(config)};
  harness_.Step({&a}, {70});
  const std::vector<float> out = harness_.Step({&b, &a}, {200, 3});
  for (const int layer : {0, 1}) {
    const float* layer_out = out.data() + (layer == 1 ? 0 : 203 * kQHeads * kVDim);
    for (int64_t token = 0; token < 203; ++token) {
      const int64_t salt = token < 200 ? 2 : 1;
      const int64_t position = token < 200 ? token : 70 + token - 200;
      const VisibleRange seen = a.cache->layer(LayerId{layer}).visible(position);
      for (int head = 0; head < kQHeads; ++head) {
        const std::vector<double> expected = Expected(salt, seen, position, head);
        for (int d = 0; d < kVDim; ++d) {
          ASSERT_NEAR(static_cast<double>(layer_out[(token * kQHeads + head) * kVDim + d]),
                      expected[static_cast<size_t>(d)], 1e-5)
              << "layer " << layer << " token " << token << " head " << head;
        }
      }
    }
  }
  EXPECT_EQ(a.cache->length(), 73);
  EXPECT_EQ(b.cache->length(), 200);
}

TEST_P(BatchInEveryStorage, ChunksOfAnySizeAloneOrBatchedGiveTheSameBits) {
  for (const CodecId codec : AllCodecs()) {
    const CacheConfig config = Config(codec, GetParam());
    const int64_t tokens = 150;
    const int64_t row = kQHeads * kVDim;
    Text whole{7, harness_.NewCache(config)};
    const std::vector<float> expected = harness_.Step({&whole}, {tokens});
    for (const int64_t chunk : {1, 7, 64}) {
      Text text{7, harness_.NewCache(config)};
      Text other{8, harness_.NewCache(config)};
      for (int64_t at = 0; at < tokens; at += chunk) {
        const int64_t n = std::min(chunk, tokens - at);
        const std::vector<float> out = harness_.Step({&other, &text}, {2, n});
        for (const int64_t layer : {0, 1}) {
          for (int64_t i = 0; i < n * row; ++i) {
            ASSERT_EQ(out[static_cast<size_t>((layer * (n + 2) + 2) * row + i)],
                      expected[static_cast<size_t>((layer * tokens + at) * row + i)])
                << CodecName(codec) << " chunk " << chunk << " token " << at + i / row;
          }
        }
      }
    }
  }
}

// Case 29 of the field (openvino#37381): growing the batch leaves the rows of those already in it as they
// are.
TEST_P(BatchInEveryStorage, AThirdSequenceChangesNothingOfTheFirstTwo) {
  const CacheConfig config = Config(CodecId::kInt8, GetParam());
  Text a{1, harness_.NewCache(config)}, b{2, harness_.NewCache(config)}, c{3, harness_.NewCache(config)};
  Text lone_a{1, harness_.NewCache(config)}, lone_b{2, harness_.NewCache(config)};
  harness_.Step({&a, &b}, {40, 50});
  harness_.Step({&lone_a, &lone_b}, {40, 50});
  const std::vector<float> three = harness_.Step({&a, &b, &c}, {1, 1, 90});
  const std::vector<float> two = harness_.Step({&lone_a, &lone_b}, {1, 1});
  const size_t row = kQHeads * kVDim;
  for (size_t i = 0; i < 2 * row; ++i) {
    ASSERT_EQ(three[i], two[i]);
    ASSERT_EQ(three[92 * row + i], two[2 * row + i]);
  }
}

TEST_P(BatchInEveryStorage, PositionsAreAbsoluteAndFollowEachSequence) {
  const CacheConfig config = Config(CodecId::kF16, GetParam());
  Text a{1, harness_.NewCache(config)}, b{2, harness_.NewCache(config)};
  harness_.Step({&a}, {5});
  const std::vector<BatchSlice> slices = {{a.cache.get(), 3}, {b.cache.get(), 2}};
  const Result<KvBatch> batch = harness_.Begin(slices);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(std::vector<int64_t>(batch->positions().begin(), batch->positions().end()),
            (std::vector<int64_t>{5, 6, 7, 0, 1}));
}

TEST_P(BatchInEveryStorage, BeginRefusesBeforeAnythingIsComputed) {
  const CacheConfig config = Config(CodecId::kF16, GetParam());
  Text a{1, harness_.NewCache(config)}, b{2, harness_.NewCache(config)};
  const auto refusal = [&](std::vector<BatchSlice> slices) {
    const Result<KvBatch> batch = harness_.Begin(slices);
    EXPECT_FALSE(batch.ok());
    EXPECT_EQ(a.cache->bytes().total_bytes(), 0);
    return batch.status();
  };
  EXPECT_EQ(refusal({}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({{nullptr, 1}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({{a.cache.get(), 1}, {b.cache.get(), 0}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({{a.cache.get(), 1}, {a.cache.get(), 1}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({{a.cache.get(), 1}, {b.cache.get(), 2001}}).message(),
            "batch: slice 1: append: 2001 tokens at length 0 pass max_context 2000");
  CacheConfig other = config;
  other.layers[1].v_codec = CodecId::kF32;
  Text c{3, harness_.NewCache(other)};
  EXPECT_EQ(refusal({{a.cache.get(), 1}, {c.cache.get(), 1}}).message(),
            "batch: sequence of slice 1 differs from slice 0 in the row shape, heads, codecs or transforms "
            "of layer 1");
}

TEST_P(BatchInEveryStorage, ABadValueInTheSecondLayerTakesTheFirstLayersTokensBack) {
  const CacheConfig config = Config(CodecId::kF16, GetParam());
  Text a{1, harness_.NewCache(config)}, cold{1, harness_.NewCache(config)};
  harness_.Step({&a}, {30});
  harness_.Step({&cold}, {30});
  {
    Result<KvBatch> batch = harness_.Begin({{a.cache.get(), 2}});
    ASSERT_TRUE(batch.ok());
    const auto q = Fill(1, 30, 2, kQHeads * kKDim);
    auto k = Fill(2, 30, 2, kKvHeads * kKDim);
    const auto v = Fill(3, 30, 2, kKvHeads * kVDim);
    std::vector<float> out(2 * kQHeads * kVDim);
    ASSERT_TRUE(batch->Attend(LayerId{0}, kQHeads, q.data(), k.data(), v.data(), {}, out.data()).ok());
    k[kKvHeads * kKDim + 5] = std::numeric_limits<float>::infinity();
    const Status status = batch->Attend(LayerId{1}, kQHeads, q.data(), k.data(), v.data(), {}, out.data());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("layer 1, slice 0: append: K value inf at position 31, head 0, dim 5"),
              std::string::npos)
        << status.message();
    EXPECT_EQ(batch->Commit().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(a.cache->length(), 30);
  EXPECT_EQ(a.cache->bytes(), PlanCache(config, 30).value());
  EXPECT_EQ(harness_.Step({&a}, {9}), harness_.Step({&cold}, {9}));
}

TEST_P(BatchInEveryStorage, ABatchThatIsDroppedLeavesTheSequenceAsItWas) {
  const CacheConfig config = Config(CodecId::kF16, GetParam());
  Text a{1, harness_.NewCache(config)};
  harness_.Step({&a}, {30});
  {
    Result<KvBatch> batch = harness_.Begin({{a.cache.get(), 500}});
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ(harness_.Begin({{a.cache.get(), 1}}).status().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(a.cache->length(), 30);
  EXPECT_EQ(a.cache->bytes(), PlanCache(config, 30).value());
}

TEST_P(BatchInEveryStorage, ClearingASequenceEndsTheStepsThatAreOpenOverIt) {
  const CacheConfig config = Config(CodecId::kF16, GetParam());
  Text a{1, harness_.NewCache(config)}, b{2, harness_.NewCache(config)}, cold{1, harness_.NewCache(config)};
  harness_.Step({&a, &b}, {30, 3});
  const auto rows = Fill(1, 0, 41, kQHeads * kKDim);
  std::vector<float> out(41 * kQHeads * kVDim);
  const auto attend = [&](KvBatch& batch, int layer) {
    return batch.Attend(LayerId{layer}, kQHeads, rows.data(), rows.data(), rows.data(), {}, out.data());
  };
  Result<KvBatch> first = harness_.Begin({{b.cache.get(), 1}, {a.cache.get(), 40}});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(attend(*first, 0).ok());
  a.cache->Clear();
  Result<KvBatch> second = harness_.Begin({{a.cache.get(), 2}});  // an open step again, not the first one's
  ASSERT_TRUE(second.ok());
  const Status status = attend(*first, 1);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "attend: the sequence of slice 1 was cleared while the step was open; the batch is closed");
  EXPECT_EQ(first->Commit().message(), "commit: the batch is closed");
  EXPECT_EQ(b.cache->length(), 3);
  EXPECT_EQ(b.cache->bytes(), PlanCache(config, 3).value());
  for (const int layer : {0, 1}) ASSERT_TRUE(attend(*second, layer).ok());
  EXPECT_TRUE(second->Commit().ok());
  EXPECT_EQ(a.cache->length(), 2);
  a.cache->Clear();
  EXPECT_EQ(harness_.Step({&a}, {9}), harness_.Step({&cold}, {9}));

  Result<KvBatch> third = harness_.Begin({{a.cache.get(), 1}});
  ASSERT_TRUE(third.ok());
  for (const int layer : {0, 1}) ASSERT_TRUE(attend(*third, layer).ok());
  a.cache->Clear();
  EXPECT_EQ(third->Commit().message(),
            "commit: the sequence of slice 0 was cleared while the step was open; the batch is closed");
  EXPECT_EQ(a.cache->length(), 0);
}

TEST_P(BatchInEveryStorage, WrongCallsAreNamedAndLeaveTheBatchOpen) {
  const CacheConfig config = Config(CodecId::kF16, GetParam());
  Text a{1, harness_.NewCache(config)};
  Result<KvBatch> batch = harness_.Begin({{a.cache.get(), 1}});
  ASSERT_TRUE(batch.ok());
  const auto rows = Fill(1, 0, 1, kQHeads * kKDim);
  std::vector<float> out(kQHeads * kVDim);
  const auto attend = [&](int layer, int q_heads) {
    return batch->Attend(LayerId{layer}, q_heads, rows.data(), rows.data(), rows.data(), {}, out.data());
  };
  EXPECT_EQ(attend(2, kQHeads).message(), "attend: layer 2, must be in [0, 2)");
  EXPECT_EQ(attend(0, 3).message(), "attend: 3 query heads, must be a multiple of 2 KV heads");
  EXPECT_EQ(batch->Attend(LayerId{0}, kQHeads, rows.data(), rows.data(), nullptr, {}, out.data()).message(),
            "attend: v of layer 0 is null");
  EXPECT_TRUE(attend(0, kQHeads).ok());
  EXPECT_EQ(attend(0, kQHeads).message(), "attend: layer 0 was attended already");
  EXPECT_EQ(batch->Commit().message(), "commit: layer 1 of 2 was not attended");
  EXPECT_TRUE(attend(1, kQHeads).ok());
  EXPECT_TRUE(batch->Commit().ok());
  EXPECT_EQ(a.cache->length(), 1);
}

TEST_P(BatchInEveryStorage, ARuleThatIsNoNumberIsRefusedBeforeAnythingIsAppended) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const CacheConfig config = Config(CodecId::kF16, GetParam());
  Text a{1, harness_.NewCache(config)};
  Result<KvBatch> batch = harness_.Begin({{a.cache.get(), 1}});
  ASSERT_TRUE(batch.ok());
  const auto rows = Fill(1, 0, 1, kQHeads * kKDim);
  std::vector<float> out(kQHeads * kVDim), plain(out.size());
  const auto attend = [&](int layer, const AttentionRule& rule, std::vector<float>& to) {
    return batch->Attend(LayerId{layer}, kQHeads, rows.data(), rows.data(), rows.data(), rule, to.data());
  };
  EXPECT_EQ(attend(1, {.scale = kNan}, out).message(), "attend: scale of layer 1 is nan, must be finite");
  EXPECT_EQ(attend(1, {.scale = -kInf}, out).message(), "attend: scale of layer 1 is -inf, must be finite");
  for (const float bad : {kNan, kInf, -1.0f}) {
    EXPECT_EQ(attend(0, {.softcap = bad}, out).message(),
              "attend: softcap of layer 0 is " + std::to_string(bad) + ", must be finite and >= 0");
  }
  float logits[kQHeads] = {0.0f, 1.0f, kNan, 2.0f};
  const Status bad_sink = attend(0, {.sink_logits = logits}, out);
  EXPECT_EQ(bad_sink.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(bad_sink.message(),
            "attend: sink logit of head 2 of layer 0 is nan, must be finite, or -inf for none");
  for (float& logit : logits) logit = -kInf;
  EXPECT_TRUE(attend(0, {.sink_logits = logits}, out).ok());
  EXPECT_TRUE(attend(1, {}, plain).ok());
  EXPECT_EQ(out, plain) << "one visible token in either layer: no sink takes weight from it";
  EXPECT_TRUE(batch->Commit().ok());
}

INSTANTIATE_TEST_SUITE_P(All, BatchInEveryStorage, ::testing::ValuesIn(AllStorages()),
                         [](const auto& param) { return std::string(StorageName(param.param)); });

}  // namespace
}  // namespace holdfast
