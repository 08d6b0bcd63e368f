// Sparse pages over the spans of real caches, protected rows and latent ones among them, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "attention/attend.h"
#include "cache/span_cache.h"

namespace holdfast {
namespace {

std::vector<float> RandomRows(std::mt19937_64& random, int64_t count) {
  std::vector<float> rows(static_cast<size_t>(count));
  for (float& x : rows) x = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  return rows;
}

// The attention of the last token of a cache that is filled with random rows.
void ExpectTheReferencesAnswer(const CacheConfig& config, int64_t length, float tolerance) {
  std::mt19937_64 random(9);
  const LayerConfig& layer = config.layers[0];
  const auto cache = std::move(SpanCache::Create(config, 0, std::make_shared<CacheMemory>())).value();
  while (cache->length() < length) {
    int64_t tokens = std::min<int64_t>(37, length - cache->length());
    if (cache->max_append() > 0) tokens = std::min(tokens, cache->max_append());
    const auto k = RandomRows(random, tokens * layer.kv_heads * layer.shape.k_dim);
    const auto v = RandomRows(random, tokens * layer.kv_heads * layer.shape.v_dim);
    ASSERT_TRUE(cache->Append(tokens, k.data(), v.data()).ok());
  }
  std::vector<Span> spans, kept_spans;
  cache->AppendSpans(length - 1, spans);
  const VisibleRange visible = cache->visible(length - 1);
  VisibleRange kept_visible;
  AttentionSequence sequence{0, 1, spans, {&visible, 1}};
  AttentionCall call;
  if (const SpanCache* kept = cache->protected_rows()) {
    kept->AppendSpans(length - 1, kept_spans);
    kept_visible = kept->visible(length - 1);
    sequence.protected_spans = kept_spans;
    sequence.protected_visible = {&kept_visible, 1};
    call.protected_codecs = layer.protection.codecs;
  }
  call.shape = layer.shape;
  call.kv_heads = layer.kv_heads;
  call.q_heads = 4 * layer.kv_heads;
  call.k_codec = layer.k_codec;
  call.v_codec = layer.shape.v_is_prefix_of_k ? layer.k_codec : layer.v_codec;
  call.rule.scale = 4.0f / std::sqrt(static_cast<float>(layer.shape.k_dim));
  call.sparse_pages = layer.sparse_pages;
  call.sequences = {&sequence, 1};
  const auto q = RandomRows(random, call.q_heads * layer.shape.k_dim);
  std::vector<float> out(static_cast<size_t>(call.q_heads * layer.shape.v_dim)), expected = out, all = out;
  call.q = q.data();
  call.out = expected.data();
  ReferenceAttend(call);
  call.out = out.data();
  AttentionWorkspace workspace;
  const auto pool = std::move(ThreadPool::Create(2)).value();
  ASSERT_TRUE(Attend(call, ActiveIsa(), workspace, *pool).ok());
  call.sparse_pages = 0;
  call.out = all.data();
  ReferenceAttend(call);
  float differs = 0.0f;
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], expected[i], tolerance) << "output " << i << " at length " << length;
    differs = std::max(differs, std::fabs(expected[i] - all[i]));
  }
  EXPECT_GT(differs, 2 * tolerance) << "nothing that matters was left out";
}

TEST(SparsePagesOfCaches, AnswerAsTheReferenceDoes) {
  for (const StorageId storage : AllStorages()) {
    for (const bool latent : {false, true}) {
      for (const CodecId codec : {CodecId::kF16, CodecId::kInt8, CodecId::kAura4}) {
        for (const auto& [sinks, recent] : {std::pair{0, 0}, {20, 30}, {0, 100}, {32, 1}, {7, 0}}) {
          CacheConfig config;
          LayerConfig layer;
          layer.k_codec = layer.v_codec = codec;
          layer.shape = latent ? RowShape{48, 32, true} : RowShape{32, 48, false};
          layer.kv_heads = 2;
          layer.sparse_pages = 12;
          layer.protection = {sinks, recent, {CodecId::kF32, CodecId::kF16}};
          config.layers = {layer};
          config.storage = storage;
          config.max_context = 1000;
          SCOPED_TRACE(std::string(StorageName(storage)) + " " + std::string(CodecName(codec)) + " sinks " +
                       std::to_string(sinks) + " recent " + std::to_string(recent) +
                       (latent ? " latent" : ""));
          for (const int64_t length : {496, 701}) {
            ExpectTheReferencesAnswer(config, length, GetCodec(codec).integer_dots ? 0.03f : 1e-4f);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
