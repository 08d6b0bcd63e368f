#include "attention/scratch_limit.h"

#include <gtest/gtest.h>

#include "attention/testing_rows.h"

namespace holdfast {
namespace {

int Below(std::mt19937_64& random, int n) {
  return static_cast<int>(random() % static_cast<uint64_t>(n));
}

LayerConfig LayerOf(const TestGeometry& geometry, int64_t window, int64_t sinks) {
  LayerConfig layer;
  layer.shape = geometry.shape;
  layer.kv_heads = geometry.kv_heads;
  layer.k_codec = geometry.k_codec;
  layer.v_codec = geometry.v_codec;
  layer.sparse_pages = geometry.sparse_pages;
  if (window > 0) layer.layout = {LayoutId::kWindow, window, sinks};
  return layer;
}

// A workspace that has served many calls holds what the largest of each kind took: still within the limit.
TEST(ScratchLimit, NoCallWithinTheLimitsMakesTheWorkspaceLarger) {
  constexpr AttentionLimits kLimits = {.threads = 3, .tokens = 48, .context = 1500};
  constexpr int kQueryHeads = 12;
  std::mt19937_64 random(3);
  const int kv_heads[] = {1, 2, 3, 12};
  const CodecId codecs[] = {CodecId::kF32, CodecId::kF16, CodecId::kInt8, CodecId::kAffine4, CodecId::kAura4};
  for (int model = 0; model < 12; ++model) {
    TestGeometry geometry;
    geometry.shape = {32 + 32 * Below(random, 3), 32 + 32 * Below(random, 3), false};
    geometry.q_heads = kQueryHeads;
    geometry.kv_heads = kv_heads[model % 4];
    geometry.k_codec = codecs[Below(random, 5)];
    geometry.v_codec = codecs[Below(random, 5)];
    const int64_t window = model % 3 == 0 ? 0 : 100 + Below(random, 900);
    const int64_t sinks = window > 0 ? Below(random, 40) : 0;
    if (window == 0) geometry.sparse_pages = model % 2 == 0 ? 8 + Below(random, 60) : 0;
    const LayerConfig layer = LayerOf(geometry, window, sinks);
    const int64_t limit = AttentionScratchLimit({&layer, 1}, kQueryHeads, kLimits, ActiveIsa());
    const auto pool = ThreadPool::Create(kLimits.threads).value();
    AttentionWorkspace workspace;
    for (int call = 0; call < 4; ++call) {
      std::vector<TestSequence> sequences;
      for (int64_t left = kLimits.tokens; left > 0 && sequences.size() < 1u + static_cast<size_t>(call);) {
        const int64_t tokens = call % 2 == 0 ? 1 + Below(random, static_cast<int>(left)) : 1;
        sequences.push_back(
            {tokens + Below(random, static_cast<int>(kLimits.context - tokens) + 1), tokens, window, sinks});
        left -= tokens;
      }
      TestCall rows(geometry, sequences, random());
      std::vector<float> out(static_cast<size_t>(rows.tokens() * kQueryHeads * geometry.shape.v_dim));
      ASSERT_TRUE(Attend(rows.Call(out.data()), ActiveIsa(), workspace, *pool).ok());
      ASSERT_LE(workspace.bytes(), limit) << geometry.Describe() << " window " << window << " call " << call;
    }
    EXPECT_LT(limit, 24 << 20) << "a limit that nobody could afford bounds nothing";
  }
}

// One that chooses is cut for its weight, many that do not are cut for turns: only the former keeps bounds.
TEST(ScratchLimit, WhatDoesNotChooseKeepsNoBoundsOfPages) {
  constexpr AttentionLimits kLimits = {.threads = 8, .tokens = 14, .context = 32768};
  TestGeometry geometry;
  geometry.shape = {16, 16, false};
  geometry.q_heads = 32;
  geometry.kv_heads = 8;
  geometry.sparse_pages = 20;
  const LayerConfig layer = LayerOf(geometry, 0, 0);
  std::vector<TestSequence> sequences(14, {320, 1});
  sequences[0].length = kLimits.context;
  TestCall rows(geometry, sequences, 1);
  const auto pool = ThreadPool::Create(kLimits.threads).value();
  AttentionWorkspace workspace;
  std::vector<float> out(static_cast<size_t>(rows.tokens() * geometry.q_heads * geometry.shape.v_dim));
  ASSERT_TRUE(Attend(rows.Call(out.data()), ActiveIsa(), workspace, *pool).ok());
  EXPECT_LE(workspace.bytes(), AttentionScratchLimit({&layer, 1}, geometry.q_heads, kLimits, ActiveIsa()));
}

}  // namespace
}  // namespace holdfast
