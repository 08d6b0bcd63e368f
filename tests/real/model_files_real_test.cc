// The headers of the two real files.
#include <gtest/gtest.h>

#include "models/model_source.h"
#include "real_models.h"

namespace holdfast {
namespace {

TEST(RealModels, SmolLm2IsUnderstood) {
  const std::string path = RealModelPath(kRealModels[0]);
  if (path.empty()) GTEST_SKIP() << "smollm2 is not in the model store";
  const auto source = OpenModelSource(path);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->config.layers, 30);
  EXPECT_EQ(source->config.q_heads, 9);
  EXPECT_EQ(source->config.kv_heads, 3);
  EXPECT_EQ(source->config.head_dim, 64);
  EXPECT_EQ(source->config.vocab_size, 49152);
  EXPECT_EQ(source->config.context_length, 8192);
  EXPECT_TRUE(source->config.tied_embeddings);
  EXPECT_EQ(source->config.attention[0].rope_base, 100000.0);
  ASSERT_TRUE(source->tokenizer.has_value()) << source->tokenizer_missing;
  EXPECT_EQ(source->tokenizer->pre, "smollm");
  EXPECT_EQ(source->tokenizer->merges.size(), 48900u);
  EXPECT_FALSE(source->tokenizer->add_bos);
  EXPECT_EQ(source->tokenizer->eos, 2);
  EXPECT_EQ(source->weights->Unused().size(), 272u);
  const auto q = source->weights->Take("blk.29.attn_k.weight", 192, 576);
  ASSERT_TRUE(q.ok()) << q.status().message();
  EXPECT_EQ(q->type, DType::kQ4_1);
  EXPECT_NE(source->chat_template.find("<|im_start|>"), std::string::npos);
}

TEST(RealModels, Gemma3IsUnderstood) {
  const std::string path = RealModelPath(kRealModels[1]);
  if (path.empty()) GTEST_SKIP() << "gemma3 is not in the model store";
  const auto source = OpenModelSource(path);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->config.layers, 18);
  EXPECT_EQ(source->config.q_heads, 4);
  EXPECT_EQ(source->config.kv_heads, 1);
  EXPECT_EQ(source->config.head_dim, 256);
  EXPECT_EQ(source->config.vocab_size, 262144);
  EXPECT_FLOAT_EQ(source->config.attention_scale, 1.0f / 16.0f);
  int full = 0;
  for (const AttentionLayerConfig& layer : source->config.attention)
    full += layer.layout.id == LayoutId::kFull;
  EXPECT_EQ(full, 3);
  EXPECT_EQ(source->config.attention[0].layout.window_tokens, 512);
  ASSERT_TRUE(source->tokenizer.has_value()) << source->tokenizer_missing;
  EXPECT_EQ(source->tokenizer->scores.size(), 262144u);
  EXPECT_TRUE(source->tokenizer->add_bos);
  EXPECT_FALSE(source->tokenizer->add_space_prefix);
}

}  // namespace
}  // namespace holdfast
