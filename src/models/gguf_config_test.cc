#include "models/gguf_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/test_files.h"
#include "models/test_refusals.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::GgufWriter;
using test::Raw;

GgufWriter Llama() {
  GgufWriter file;
  file.String("general.architecture", "llama").String("general.name", "toy");
  file.Uint32("llama.block_count", 2)
      .Uint32("llama.context_length", 128)
      .Uint32("llama.embedding_length", 32);
  file.Uint32("llama.feed_forward_length", 64).Uint32("llama.attention.head_count", 4);
  file.Uint32("llama.attention.head_count_kv", 2).Float32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.Zeros("token_embd.weight", {32, 10});
  return file;
}

GgufWriter Gemma3(uint32_t layers) {
  GgufWriter file;
  file.String("general.architecture", "gemma3");
  file.Uint32("gemma3.block_count", layers).Uint32("gemma3.context_length", 128);
  file.Uint32("gemma3.embedding_length", 32).Uint32("gemma3.feed_forward_length", 64);
  file.Uint32("gemma3.attention.head_count", 4).Uint32("gemma3.attention.head_count_kv", 1);
  file.Uint32("gemma3.attention.key_length", 16).Uint32("gemma3.attention.value_length", 16);
  file.Float32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f).Float32("gemma3.rope.freq_base", 1e6f);
  file.Uint32("gemma3.attention.sliding_window", 8).Zeros("token_embd.weight", {32, 10});
  return file;
}

Result<ModelConfig> Read(const GgufWriter& writer) {
  const std::string bytes = writer.Build();
  const auto file = GgufFile::Parse(BytesOf(bytes), "toy.gguf");
  if (!file.ok()) return file.status();
  return ReadGgufConfig(**file);
}

TEST(GgufConfig, ReadsALlama) {
  const auto config = Read(Llama().Float32("llama.rope.freq_base", 5e5f));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->name, "toy");
  EXPECT_EQ(config->vocab_size, 10);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->rotary_dim, 8);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_EQ(config->rope_pairing, RopePairing::kInterleaved);
  EXPECT_EQ(config->activation, Activation::kSilu);
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / std::sqrt(8.0f));
  ASSERT_EQ(config->attention.size(), 2u);
  EXPECT_EQ(config->attention[1].rope_base, 5e5);
  EXPECT_EQ(config->attention[1].layout.id, LayoutId::kFull);
  EXPECT_EQ(config->attention[1].rope_scaling.kind, RopeScaling::Kind::kNone);
}

TEST(GgufConfig, TensorsSayWhatIsTiedAndBiased) {
  const auto config = Read(Llama().Zeros("output.weight", {32, 10}).Zeros("blk.0.attn_q.bias", {32}));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->output_bias);
}

TEST(GgufConfig, ASlidingWindowOfLlamaIsOneOfEveryLayer) {
  const auto config = Read(Llama().Uint32("llama.attention.sliding_window", 16));
  ASSERT_TRUE(config.ok()) << config.status().message();
  for (const AttentionLayerConfig& layer : config->attention) {
    EXPECT_EQ(layer.layout, (LayoutConfig{LayoutId::kWindow, 16, 0}));
  }
}

TEST(GgufConfig, LinearRopeScalingIsRead) {
  const auto config =
      Read(Llama().String("llama.rope.scaling.type", "linear").Float32("llama.rope.scaling.factor", 4.0f));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->attention[0].rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(config->attention[0].rope_scaling.factor, 4.0);
  const auto none =
      Read(Llama().String("llama.rope.scaling.type", "none").Float32("llama.rope.scaling.factor", 4.0f));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->attention[0].rope_scaling.kind, RopeScaling::Kind::kNone);
}

TEST(GgufConfig, EqualHeadCountsPerLayerAreOneCount) {
  GgufWriter file;
  file.String("general.architecture", "llama");
  file.Uint32("llama.block_count", 2)
      .Uint32("llama.context_length", 128)
      .Uint32("llama.embedding_length", 32);
  file.Numbers<int32_t>("llama.feed_forward_length", GgufType::kInt32, {64, 64});
  file.Numbers<int32_t>("llama.attention.head_count", GgufType::kInt32, {4, 4});
  file.Numbers<int32_t>("llama.attention.head_count_kv", GgufType::kInt32, {2, 2});
  file.Float32("llama.attention.layer_norm_rms_epsilon", 1e-5f).Zeros("token_embd.weight", {32, 10});
  const auto config = Read(file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->q_heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->ffn_dim, 64);
}

TEST(GgufConfig, EverySixthLayerOfGemma3IsFull) {
  const auto config = Read(Gemma3(7).Float32("gemma3.rope.scaling.factor", 8.0f));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->rope_pairing, RopePairing::kHalves);
  EXPECT_EQ(config->activation, Activation::kGeluTanh);
  EXPECT_FALSE(config->norm_weight_plus_one) << "the converter has added the one";
  EXPECT_FLOAT_EQ(config->embedding_scale, std::sqrt(32.0f));
  EXPECT_FLOAT_EQ(config->attention_scale, 0.25f);
  for (size_t i = 0; i < 7; ++i) {
    const AttentionLayerConfig& layer = config->attention[i];
    EXPECT_EQ(layer.layout.id, i == 5 ? LayoutId::kFull : LayoutId::kWindow) << i;
    EXPECT_EQ(layer.layout.window_tokens, i == 5 ? 0 : 8) << i;
    EXPECT_EQ(layer.rope_base, i == 5 ? 1e6 : 1e4) << i;
    EXPECT_EQ(layer.rope_scaling.factor, i == 5 ? 8.0 : 1.0) << i << ": only global layers are scaled";
  }
}

TEST(GgufConfig, AWindowPatternOfTheFileWins) {
  const auto period = Read(Gemma3(4).Uint32("gemma3.attention.sliding_window_pattern", 2));
  ASSERT_TRUE(period.ok()) << period.status().message();
  EXPECT_EQ(period->attention[0].layout.id, LayoutId::kWindow);
  EXPECT_EQ(period->attention[1].layout.id, LayoutId::kFull);
  const auto flags =
      Read(Gemma3(2).Numbers<uint8_t>("gemma3.attention.sliding_window_pattern", GgufType::kBool, {0, 1}));
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  EXPECT_EQ(flags->attention[0].layout.id, LayoutId::kFull);
  EXPECT_EQ(flags->attention[1].layout.id, LayoutId::kWindow);
}

TEST(GgufConfig, TheLargestGemma3ScalesByItsHiddenSize) {
  const auto config = Read(Gemma3(62));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / std::sqrt(32.0f / 4.0f));
}

using Refused = test::Refused<GgufWriter>;

class GgufConfigRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(GgufConfigRefused, ByKeyAndValue) {
  test::ExpectRefused(Read(GetParam().input).status(), GetParam());
}

constexpr auto kUnimplemented = StatusCode::kUnimplemented;
constexpr auto kOutOfRange = StatusCode::kOutOfRange;
constexpr auto kInvalid = StatusCode::kInvalidArgument;

const Refused kChangedMathematics[] = {
    {"Architecture",
     GgufWriter().String("general.architecture", "mamba"),
     kUnimplemented,
     {"\"mamba\"", "llama, gemma3"}},
    {"Yarn",
     Llama().String("llama.rope.scaling.type", "yarn"),
     kUnimplemented,
     {"llama.rope.scaling.type", "\"yarn\""}},
    {"LongRope", Llama().String("llama.rope.scaling.type", "longrope"), kUnimplemented, {"\"longrope\""}},
    {"Experts",
     Llama().Uint32("llama.expert_count", 8),
     kUnimplemented,
     {"llama.expert_count", "is 8", "supported is 0"}},
    {"LogitScale",
     Llama().Float32("llama.logit_scale", 0.5f),
     kUnimplemented,
     {"llama.logit_scale", "is 0.5"}},
    {"NotCausal",
     Llama().Bool("llama.attention.causal", false),
     kUnimplemented,
     {"llama.attention.causal", "is 0"}},
    {"UnknownKey",
     Llama().Uint32("llama.attention.novelty", 1),
     kUnimplemented,
     {"llama.attention.novelty", "not known"}},
    {"SoftcapOfLlama",
     Llama().Float32("llama.attn_logit_softcapping", 50.0f),
     kUnimplemented,
     {"attn_logit_softcapping"}},
    {"TwoHeadSizes",
     Llama().Uint32("llama.attention.key_length", 16),
     kUnimplemented,
     {"key_length is 16", "value_length is 8"}},
    {"Adapter", Llama().String("general.type", "adapter"), kUnimplemented, {"general.type", "\"adapter\""}},
    {"Split", Llama().Uint32("split.count", 2), kUnimplemented, {"split.count", "is 2"}},
    {"Quantization",
     Llama().Uint32("general.quantization_version", 1),
     kUnimplemented,
     {"quantization_version", "is 1"}},
    {"UnequalHeads",
     GgufWriter()
         .String("general.architecture", "llama")
         .Uint32("llama.block_count", 2)
         .Uint32("llama.context_length", 8)
         .Uint32("llama.embedding_length", 32)
         .Uint32("llama.feed_forward_length", 64)
         .Numbers<int32_t>("llama.attention.head_count", GgufType::kInt32, {4, 2}),
     kUnimplemented,
     {"llama.attention.head_count", "is 2 at layer 1 and 4 at layer 0"}},
};

GgufWriter Begun() {
  return GgufWriter().String("general.architecture", "llama");
}

const Refused kBadValues[] = {
    {"NoArchitecture", GgufWriter(), StatusCode::kNotFound, {"general.architecture"}},
    {"NoLayers", Begun(), StatusCode::kNotFound, {"llama.block_count"}},
    {"ZeroLayers",
     Begun().Uint32("llama.block_count", 0),
     kOutOfRange,
     {"llama.block_count", "is 0", "1 and 1024"}},
    {"ManyLayers", Begun().Uint32("llama.block_count", 1025), kOutOfRange, {"is 1025", "1 and 1024"}},
    {"LayersAsText",
     Begun().String("llama.block_count", "2"),
     kInvalid,
     {"llama.block_count", "type string"}},
    {"Window",
     Llama().RawKey("llama.attention.sliding_window", GgufType::kInt32, Raw<int32_t>(-1)),
     kOutOfRange,
     {"attention window of layer 0", "is -1"}},
    {"OddRotary", Llama().Uint32("llama.rope.dimension_count", 7), kInvalid, {"RoPE dimension count is 7"}},
    {"WideRotary",
     Llama().Uint32("llama.rope.dimension_count", 16),
     kOutOfRange,
     {"RoPE dimension count is 16", "1 and 8"}},
    {"RopeBase", Llama().Float32("llama.rope.freq_base", 0.0f), kOutOfRange, {"RoPE base of layer 0 is 0"}},
    {"RopeFactor",
     Llama().Float32("llama.rope.scaling.factor", -2.0f),
     kOutOfRange,
     {"RoPE scaling factor", "is -2"}},
    {"Vocabulary",
     Llama().Uint32("llama.vocab_size", 11),
     kInvalid,
     {"llama.vocab_size", "is 11", "10 rows"}},
    {"Tokens",
     Llama().Strings("tokenizer.ggml.tokens", {"a"}),
     kInvalid,
     {"tokenizer.ggml.tokens", "1 values", "10 rows"}},
    {"Pattern",
     Gemma3(2).Numbers<uint8_t>("gemma3.attention.sliding_window_pattern", GgufType::kBool, {1}),
     kInvalid,
     {"sliding_window_pattern", "1 values", "2 layers"}},
};

INSTANTIATE_TEST_SUITE_P(ChangedMathematics, GgufConfigRefused, ::testing::ValuesIn(kChangedMathematics),
                         test::NameOfRow<GgufWriter>);
INSTANTIATE_TEST_SUITE_P(BadValues, GgufConfigRefused, ::testing::ValuesIn(kBadValues),
                         test::NameOfRow<GgufWriter>);

TEST(GgufConfig, QueryHeadsMustDivideAmongKvHeads) {
  GgufWriter file;
  file.String("general.architecture", "llama")
      .Uint32("llama.block_count", 1)
      .Uint32("llama.context_length", 8);
  file.Uint32("llama.embedding_length", 32).Uint32("llama.feed_forward_length", 64);
  file.Uint32("llama.attention.head_count", 4).Uint32("llama.attention.head_count_kv", 3);
  file.Float32("llama.attention.layer_norm_rms_epsilon", 1e-5f).Zeros("token_embd.weight", {32, 10});
  EXPECT_EQ(Read(file).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
