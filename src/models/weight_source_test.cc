#include "models/weight_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "models/model_source.h"
#include "models/registry.h"
#include "models/test_files.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::GgufWriter;
using test::Raw;
using test::SafetensorsBytes;

TEST(CanonicalName, MapsBothFamilies) {
  EXPECT_EQ(CanonicalName(kLlamaFamily, "model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(CanonicalName(kLlamaFamily, "model.norm.weight"), "output_norm.weight");
  EXPECT_EQ(CanonicalName(kLlamaFamily, "lm_head.weight"), "output.weight");
  EXPECT_EQ(CanonicalName(kLlamaFamily, "model.layers.12.self_attn.q_proj.weight"), "blk.12.attn_q.weight");
  EXPECT_EQ(CanonicalName(kLlamaFamily, "model.layers.0.self_attn.o_proj.bias"), "blk.0.attn_output.bias");
  EXPECT_EQ(CanonicalName(kLlamaFamily, "model.layers.0.post_attention_layernorm.weight"),
            "blk.0.ffn_norm.weight");
  EXPECT_EQ(CanonicalName(kGemma3Family, "model.layers.0.post_attention_layernorm.weight"),
            "blk.0.post_attention_norm.weight");
  EXPECT_EQ(CanonicalName(kGemma3Family, "model.layers.0.pre_feedforward_layernorm.weight"),
            "blk.0.ffn_norm.weight");
  EXPECT_EQ(CanonicalName(kGemma3Family, "model.layers.0.post_feedforward_layernorm.weight"),
            "blk.0.post_ffw_norm.weight");
  EXPECT_EQ(CanonicalName(kGemma3Family, "model.layers.0.self_attn.k_norm.weight"),
            "blk.0.attn_k_norm.weight");
  EXPECT_EQ(CanonicalName(kGemma3Family, "language_model.model.layers.3.mlp.up_proj.weight"),
            "blk.3.ffn_up.weight");
  EXPECT_EQ(CanonicalName(kGemma3Family, "model.language_model.embed_tokens.weight"), "token_embd.weight");
}

TEST(CanonicalName, KnowsNothingElse) {
  for (const char* name : {"model.layers.0.self_attn.q_norm.weight", "model.layers.00.mlp.up_proj.weight",
                           "model.layers..mlp.up_proj.weight", "model.layers.0", "token_embd.weight",
                           "model.", "", "model.layers.99999.mlp.up_proj.weight"}) {
    EXPECT_EQ(CanonicalName(kLlamaFamily, name), "") << name;
  }
}

std::unique_ptr<WeightSource> FromGguf(const std::string& bytes) {
  auto file = GgufFile::Parse(BytesOf(bytes), "toy.gguf");
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto source = MakeWeightSource(std::shared_ptr<const GgufFile>(std::move(file).value()));
  EXPECT_TRUE(source.ok()) << source.status().message();
  return std::move(source).value();
}

TEST(WeightSource, HandsOutAMatrixOfTheShapeThatIsWanted) {
  const std::string bytes = GgufWriter().Zeros("blk.0.attn_q.weight", {32, 8}).Build();
  const auto source = FromGguf(bytes);
  const auto weight = source->Take("blk.0.attn_q.weight", 8, 32);
  ASSERT_TRUE(weight.ok()) << weight.status().message();
  EXPECT_EQ(weight->bytes.size(), 1024u);
  EXPECT_EQ(source->total_bytes(), 1024);
  const Status wrong = source->Take("blk.0.attn_q.weight", 32, 8).status();
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(wrong.message(),
            "load weights \"toy.gguf\": tensor \"blk.0.attn_q.weight\" has shape [8, 32], the "
            "configuration needs [32, 8]");
  EXPECT_EQ(source->Take("blk.1.attn_q.weight", 8, 32).status().code(), StatusCode::kNotFound);
}

TEST(WeightSource, ATensorThatNobodyTookIsNamed) {
  const std::string bytes = GgufWriter().Zeros("known", {4}).Zeros("blk.0.ffn_gate_exps", {4, 4, 4}).Build();
  const auto source = FromGguf(bytes);
  ASSERT_TRUE(source->Take("known", 1, 4).ok());
  EXPECT_EQ(source->Unused(), (std::vector<std::string>{"blk.0.ffn_gate_exps"}));
  const Status status = source->CheckAllTaken();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("1 tensors"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("\"blk.0.ffn_gate_exps\""), std::string::npos) << status.message();
}

TEST(WeightSource, VectorsComeAsFloatsFromEveryFloatType) {
  const std::string bytes = GgufWriter()
                                .Tensor("f32", {2}, 0, Raw(1.5f) + Raw(-2.0f))
                                .Tensor("f16", {2}, 1, Raw<uint16_t>(0x3e00) + Raw<uint16_t>(0xc000))
                                .Tensor("bf16", {2}, 30, Raw<uint16_t>(0x3fc0) + Raw<uint16_t>(0xc000))
                                .Tensor("q8_0", {32}, 8, std::string(34, '\0'))
                                .Build();
  const auto source = FromGguf(bytes);
  for (const char* name : {"f32", "f16", "bf16"}) {
    const auto vector = source->TakeVector(name, 2);
    ASSERT_TRUE(vector.ok()) << vector.status().message();
    EXPECT_EQ(*vector, (std::vector<float>{1.5f, -2.0f})) << name;
  }
  EXPECT_EQ(source->TakeVector("q8_0", 32).status().code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(source->CheckAllTaken().ok());
}

// A Hugging Face folder of one llama's names, the output matrix as given.
class HfFolder {
 public:
  HfFolder(const std::string& header, const std::string& data, const std::string& config) {
    std::string pattern = ::testing::TempDir() + "hfXXXXXX";
    path_ = ::mkdtemp(pattern.data());
    Write("model.safetensors", Raw<uint64_t>(header.size()) + header + data);
    Write("config.json", config);
  }
  ~HfFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }
  std::string path_;
};

std::string Config(bool tied) {
  return R"({"model_type":"llama","vocab_size":2,"hidden_size":2,"intermediate_size":2,"num_hidden_layers":1,)"
         R"("num_attention_heads":1,"max_position_embeddings":8,"tie_word_embeddings":)" +
         std::string(tied ? "true" : "false") + "}";
}

constexpr std::string_view kHeader =
    R"({"model.embed_tokens.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("lm_head.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]},)"
    R"("model.layers.0.self_attn.rotary_emb.inv_freq":{"dtype":"F32","shape":[1],"data_offsets":[32,36]}})";

TEST(WeightSource, AFolderIsReadByCanonicalNames) {
  const HfFolder folder(std::string(kHeader), std::string(16, 'a') + std::string(16, 'b') + "cccc",
                        Config(false));
  const auto source = OpenModelSource(folder.path());
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_FALSE(source->tokenizer.has_value());
  EXPECT_NE(source->tokenizer_missing.find("tokenizer.json"), std::string::npos);
  EXPECT_TRUE(source->weights->Take("token_embd.weight", 2, 2).ok());
  EXPECT_TRUE(source->weights->Take("output.weight", 2, 2).ok());
  EXPECT_TRUE(source->weights->CheckAllTaken().ok()) << "stored rotary tables are left out";
}

TEST(WeightSource, ATiedOutputMatrixMustRepeatTheEmbeddings) {
  const HfFolder same(std::string(kHeader), std::string(32, 'a') + "cccc", Config(true));
  const auto source = OpenModelSource(same.path());
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_FALSE(source->weights->Has("output.weight"));
  const HfFolder differs(std::string(kHeader), std::string(16, 'a') + std::string(16, 'b') + "cccc",
                         Config(true));
  const Status status = OpenModelSource(differs.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("\"lm_head.weight\" differs from the embeddings"), std::string::npos)
      << status.message();
}

TEST(WeightSource, TwoNamesOfOneTensorAreRefused) {
  const HfFolder folder(
      R"({"model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("model.language_model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      std::string(8, 'a'), Config(false));
  const Status status = OpenModelSource(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("output_norm.weight"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace holdfast
