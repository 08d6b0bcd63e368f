#include "models/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/test_refusals.h"

namespace holdfast {
namespace {

using nlohmann::json;

json Llama() {
  return {{"model_type", "llama"},    {"vocab_size", 100},
          {"hidden_size", 32},        {"intermediate_size", 64},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 256},
          {"rms_norm_eps", 1e-5},     {"hidden_act", "silu"}};
}

json Gemma3(int layers = 7) {
  return {{"model_type", "gemma3_text"},
          {"vocab_size", 100},
          {"hidden_size", 32},
          {"intermediate_size", 64},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 1},
          {"head_dim", 16},
          {"max_position_embeddings", 256},
          {"query_pre_attn_scalar", 64},
          {"sliding_window", 8}};
}

json With(json base, const json& more) {
  base.update(more);
  return base;
}

Result<ModelConfig> Read(const json& config) {
  return ParseHfConfig(config.dump(), "config.json");
}

TEST(HfConfig, ReadsALlama) {
  const auto config = Read(With(
      Llama(),
      {{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", true}, {"rope_theta", 5e5}}));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->rope_pairing, RopePairing::kHalves);
  EXPECT_TRUE(config->qkv_bias && config->output_bias && config->mlp_bias && config->tied_embeddings);
  EXPECT_FALSE(config->norm_weight_plus_one);
  EXPECT_EQ(config->attention[1].rope_base, 5e5);
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / std::sqrt(8.0f));
}

TEST(HfConfig, HeadSizeNeedNotBeAShareOfTheHiddenSize) {
  const auto config = Read(With(Llama(), {{"head_dim", 64}}));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->rotary_dim, 64);
}

TEST(HfConfig, Llama3RopeIsReadOldAndNew) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 64}};
  const auto old_way = Read(With(Llama(), {{"rope_theta", 5e5}, {"rope_scaling", scaling}}));
  const auto new_way = Read(With(Llama(), {{"rope_parameters", With(scaling, {{"rope_theta", 5e5}})}}));
  for (const auto& config : {old_way, new_way}) {
    ASSERT_TRUE(config.ok()) << config.status().message();
    const AttentionLayerConfig& layer = config->attention[0];
    EXPECT_EQ(layer.rope_base, 5e5);
    EXPECT_EQ(layer.rope_scaling.kind, RopeScaling::Kind::kLlama3);
    EXPECT_EQ(layer.rope_scaling.factor, 8.0);
    EXPECT_EQ(layer.rope_scaling.original_max_position, 64);
  }
}

TEST(HfConfig, ARopeBaseMayBeWrittenTwiceIfItIsTheSame) {
  const auto config = Read(With(Llama(), {{"rope_theta", 5e5}, {"rope_parameters", {{"rope_theta", 5e5}}}}));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->attention[0].rope_base, 5e5);
}

TEST(HfConfig, LinearRopeIsReadUnderItsOldName) {
  const auto config = Read(With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->attention[0].rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(config->attention[0].rope_scaling.factor, 2.0);
}

TEST(HfConfig, MistralsWindowIsALayout) {
  const json mistral = With(Llama(), {{"model_type", "mistral"}});
  const auto given = Read(With(mistral, {{"sliding_window", 16}}));
  const auto none = Read(With(mistral, {{"sliding_window", nullptr}}));
  const auto silent = Read(mistral);
  ASSERT_TRUE(given.ok() && none.ok() && silent.ok());
  EXPECT_EQ(given->architecture, "llama");
  EXPECT_EQ(given->attention[0].layout, (LayoutConfig{LayoutId::kWindow, 16, 0}));
  EXPECT_EQ(none->attention[0].layout.id, LayoutId::kFull);
  EXPECT_EQ(silent->attention[0].layout.window_tokens, 4096) << "what transformers assumes";
}

TEST(HfConfig, ReadsAGemma3) {
  const auto config = Read(With(Gemma3(), {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                                           {"final_logit_softcapping", 30.0}}));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "gemma3");
  EXPECT_TRUE(config->norm_weight_plus_one);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_EQ(config->activation, Activation::kGeluTanh);
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / 8.0f);
  EXPECT_FLOAT_EQ(config->embedding_scale, std::sqrt(32.0f));
  EXPECT_EQ(config->final_softcap, 30.0f);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(config->attention[i].layout.id, i == 5 ? LayoutId::kFull : LayoutId::kWindow) << i;
    EXPECT_EQ(config->attention[i].rope_base, i == 5 ? 1e6 : 1e4) << i;
    EXPECT_EQ(config->attention[i].rope_scaling.factor, i == 5 ? 8.0 : 1.0) << i;
  }
}

TEST(HfConfig, Gemma3LayerTypesAndNestedRopeAreRead) {
  const auto config =
      Read(With(Gemma3(2), {{"layer_types", {"full_attention", "sliding_attention"}},
                            {"_sliding_window_pattern", 6},
                            {"rope_parameters",
                             {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 2e6}}},
                              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}}}}));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->attention[0].layout.id, LayoutId::kFull);
  EXPECT_EQ(config->attention[0].rope_base, 2e6);
  EXPECT_EQ(config->attention[1].layout.window_tokens, 8);
  EXPECT_EQ(config->attention[1].rope_base, 3e4);
}

TEST(HfConfig, AMultimodalGemma3HasItsTextInside) {
  const auto config = Read({{"model_type", "gemma3"},
                            {"text_config", With(Gemma3(), {{"sliding_window_pattern", 2}})},
                            {"vision_config", {{"hidden_size", 7}}},
                            {"mm_tokens_per_image", 256}});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "gemma3");
  EXPECT_EQ(config->attention[1].layout.id, LayoutId::kFull);
}

TEST(HfConfig, KeysThatChangeNothingAreIgnoredByList) {
  EXPECT_TRUE(Read(With(Llama(), {{"torch_dtype", "bfloat16"},
                                  {"transformers_version", "4.42.3"},
                                  {"use_cache", true},
                                  {"is_llama_config", true},
                                  {"rope_interleaved", false},
                                  {"architectures", {"LlamaForCausalLM"}},
                                  {"novelty", nullptr}}))
                  .ok());
}

TEST(HfConfig, EndTokensAreOneIdOrAList) {
  EXPECT_EQ(Read(With(Llama(), {{"eos_token_id", 2}}))->end_tokens, std::vector<int32_t>{2});
  EXPECT_EQ(Read(With(Llama(), {{"eos_token_id", {1, 2}}}))->end_tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(Read(With(Llama(), {{"eos_token_id", nullptr}}))->end_tokens, std::vector<int32_t>{});
  for (const json& bad : {json(-1), json("2"), json({1, 1 << 30}), json(1.5)}) {
    const auto config = Read(With(Llama(), {{"eos_token_id", bad}}));
    ASSERT_FALSE(config.ok()) << bad;
    EXPECT_NE(config.status().message().find("eos_token_id"), std::string::npos) << config.status().message();
  }
}

using Refused = test::Refused<json>;

class HfConfigRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(HfConfigRefused, ByKeyAndValue) {
  test::ExpectRefused(Read(GetParam().input).status(), GetParam());
}

constexpr auto kUnimplemented = StatusCode::kUnimplemented;
constexpr auto kOutOfRange = StatusCode::kOutOfRange;
constexpr auto kInvalid = StatusCode::kInvalidArgument;

json Rope(const char* type) {
  return With(Llama(), {{"rope_scaling", {{"rope_type", type}, {"factor", 2.0}}}});
}

const Refused kChangedMathematics[] = {
    {"ModelType", {{"model_type", "qwen2"}}, kUnimplemented, {"\"qwen2\"", "supported are llama"}},
    {"Yarn", Rope("yarn"), kUnimplemented, {"rope_scaling", "\"yarn\"", "default, linear and llama3"}},
    {"Dynamic", Rope("dynamic"), kUnimplemented, {"\"dynamic\""}},
    {"LongRope", Rope("longrope"), kUnimplemented, {"\"longrope\""}},
    {"FactorOfDefault", Rope("default"), kUnimplemented, {"rope_scaling", "\"factor\"", "2.0"}},
    {"PartialRotary",
     With(Llama(), {{"partial_rotary_factor", 0.5}}),
     kUnimplemented,
     {"partial_rotary_factor", "0.5"}},
    {"PartialRotaryInside",
     With(Llama(), {{"rope_parameters", {{"partial_rotary_factor", 0.25}}}}),
     kUnimplemented,
     {"rope_parameters", "partial_rotary_factor", "0.25"}},
    {"Activation",
     With(Llama(), {{"hidden_act", "relu"}}),
     kUnimplemented,
     {"hidden_act", "\"relu\"", "\"silu\""}},
    {"GemmaActivation",
     With(Gemma3(), {{"hidden_activation", "silu"}}),
     kUnimplemented,
     {"hidden_activation", "\"silu\""}},
    {"Experts", With(Llama(), {{"num_local_experts", 8}}), kUnimplemented, {"num_local_experts", "8"}},
    {"SoftcapOfLlama",
     With(Llama(), {{"final_logit_softcapping", 30.0}}),
     kUnimplemented,
     {"final_logit_softcapping"}},
    {"WindowOfLlama", With(Llama(), {{"sliding_window", 16}}), kUnimplemented, {"sliding_window"}},
    {"Quantized",
     With(Llama(), {{"quantization_config", {{"bits", 4}}}}),
     kUnimplemented,
     {"quantization_config"}},
    {"Bidirectional",
     With(Gemma3(), {{"use_bidirectional_attention", true}}),
     kUnimplemented,
     {"use_bidirectional_attention", "true"}},
    {"LayerType",
     With(Gemma3(1), {{"layer_types", {"linear_attention"}}}),
     kUnimplemented,
     {"layer_types", "linear_attention"}},
    {"LayerTypeOfLlama",
     With(Llama(), {{"layer_types", {"full_attention", "sliding_attention"}}}),
     kUnimplemented,
     {"layer_types", "at layer 1"}},
    {"Interleaved",
     With(Llama(), {{"rope_interleaved", true}}),
     kUnimplemented,
     {"rope_interleaved", "true"}},
    {"UnknownKey", With(Llama(), {{"novelty", 1}}), kUnimplemented, {"\"novelty\"", "1", "not known"}},
};

json Without(json base, const char* key) {
  base.erase(key);
  return base;
}

const Refused kBadValues[] = {
    {"Missing", Without(Llama(), "vocab_size"), StatusCode::kNotFound, {"vocab_size"}},
    {"NotAnObject", json::array(), StatusCode::kDataLoss, {"type array"}},
    {"ZeroLayers",
     With(Llama(), {{"num_hidden_layers", 0}}),
     kOutOfRange,
     {"num_hidden_layers", "is 0", "1 and 1024"}},
    {"NegativeHeads", With(Llama(), {{"num_attention_heads", -4}}), kOutOfRange, {"is -4", "1 and 1024"}},
    {"HugeVocabulary",
     With(Llama(), {{"vocab_size", 18446744073709551615u}}),
     kOutOfRange,
     {"vocab_size", "18446744073709551615", "4194304"}},
    {"FractionalSize",
     With(Llama(), {{"hidden_size", 32.5}}),
     kInvalid,
     {"hidden_size", "wanted an integer"}},
    {"TextSize", With(Llama(), {{"hidden_size", "32"}}), kInvalid, {"hidden_size", "type string"}},
    {"HeadsDoNotDivide", With(Llama(), {{"num_key_value_heads", 3}}), kInvalid, {"query head count is 4"}},
    {"OddHead", With(Llama(), {{"head_dim", 7}}), kInvalid, {"RoPE dimension count is 7"}},
    {"RopeFactor",
     With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}}),
     kOutOfRange,
     {"RoPE scaling factor", "0.5"}},
    {"Llama3Factors",
     With(
         Llama(),
         {{"rope_scaling",
           {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}}}}),
     kOutOfRange,
     {"low and high frequency factors"}},
    {"TwoRopes",
     With(Llama(), {{"rope_scaling", json::object()}, {"rope_parameters", json::object()}}),
     kInvalid,
     {"rope_scaling", "rope_parameters"}},
    {"TwoRopeBases",
     With(Llama(), {{"rope_theta", 5e5}, {"rope_parameters", {{"rope_theta", 1e4}}}}),
     kInvalid,
     {"rope_parameters", "\"rope_theta\" is 10000", "of the config is 500000"}},
    {"TwoRopeBasesOfAScaling",
     With(Llama(), {{"rope_theta", 5e5},
                    {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}}}}),
     kInvalid,
     {"rope_scaling", "\"rope_theta\" is 10000", "of the config is 500000"}},
    {"TwoFullBases",
     With(Gemma3(), {{"rope_theta", 1e6}, {"rope_parameters", {{"full_attention", {{"rope_theta", 2e6}}}}}}),
     kInvalid,
     {"full_attention", "\"rope_theta\" is 2000000", "key \"rope_theta\" of the config is 1000000"}},
    {"TwoSlidingBases",
     With(Gemma3(), {{"rope_local_base_freq", 1e4},
                     {"rope_parameters", {{"sliding_attention", {{"rope_theta", 3e4}}}}}}),
     kInvalid,
     {"sliding_attention", "is 30000", "key \"rope_local_base_freq\" of the config is 10000"}},
    {"TwoRopeTypes",
     With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"rope_type", "yarn"}}}}),
     kInvalid,
     {"rope_type", "\"yarn\"", "\"linear\""}},
    {"Epsilon", With(Llama(), {{"rms_norm_eps", 0}}), kOutOfRange, {"norm epsilon is 0"}},
    {"QueryScalar", With(Gemma3(), {{"query_pre_attn_scalar", -1}}), kOutOfRange, {"attention scale"}},
    {"NoWindow", With(Gemma3(), {{"sliding_window", nullptr}}), kInvalid, {"sliding_window"}},
    {"LayerTypesLengthOfLlama",
     With(Llama(), {{"layer_types", {"full_attention"}}}),
     kInvalid,
     {"layer_types", "2 values"}},
    {"LayerTypesLength",
     With(Gemma3(2), {{"layer_types", {"full_attention"}}}),
     kInvalid,
     {"layer_types", "2 values"}},
};

INSTANTIATE_TEST_SUITE_P(ChangedMathematics, HfConfigRefused, ::testing::ValuesIn(kChangedMathematics),
                         test::NameOfRow<json>);
INSTANTIATE_TEST_SUITE_P(BadValues, HfConfigRefused, ::testing::ValuesIn(kBadValues), test::NameOfRow<json>);

TEST(HfConfig, JsonThatIsNotIsAnError) {
  EXPECT_EQ(ParseHfConfig("{", "config.json").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseHfConfig(R"({"a":1,"a":2})", "config.json").status().code(), StatusCode::kDataLoss);
  const std::string deep = std::string(1000, '[');
  const Status status = ParseHfConfig(deep, "config.json").status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("nesting depth is 17, the limit is 16"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace holdfast
