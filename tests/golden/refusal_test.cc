// What a model refuses, and what breaks inside it, is said by name.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model_runner.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Tensors ReadSafetensors(const fs::path& path) {
  const std::string bytes = ReadFile(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  Tensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor t{entry.at("shape").get<std::vector<int64_t>>(), {}};
    const auto offsets = entry.at("data_offsets").get<std::vector<size_t>>();
    t.values.resize((offsets[1] - offsets[0]) / sizeof(float));
    std::memcpy(t.values.data(), bytes.data() + 8 + header_bytes + offsets[0], offsets[1] - offsets[0]);
    tensors[name] = std::move(t);
  }
  return tensors;
}

void WriteSafetensors(const fs::path& path, const Tensors& tensors) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, t] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(t.values.data()), t.values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = text.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  out << text << data;
}

// The plain llama golden with its tensors changed.
class RefusalTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        ("holdfast_refusal_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::create_directories(folder_);
    fs::copy_file(Golden() / "config.json", folder_ / "config.json", fs::copy_options::overwrite_existing);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static fs::path Golden() {
    return fs::path(HOLDFAST_SOURCE_DIR) / "tests" / "golden" / "llama_tied" / "hf";
  }

  Result<std::unique_ptr<ModelRunner>> LoadChanged(const std::function<void(Tensors&)>& change) {
    Tensors tensors = ReadSafetensors(Golden() / "model.safetensors");
    change(tensors);
    WriteSafetensors(folder_ / "model.safetensors", tensors);
    return ModelRunner::Load(folder_.string(), 1);
  }

  // The message of the refusal to load the changed model.
  std::string LoadError(const std::function<void(Tensors&)>& change) {
    const auto runner = LoadChanged(change);
    return runner.ok() ? "loaded" : runner.status().message();
  }

  fs::path folder_;
};

constexpr int32_t kTokens[] = {5, 77, 201, 8};

TEST_F(RefusalTest, UnchangedTensorsLoad) {
  const auto runner = LoadChanged([](Tensors&) {});
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  EXPECT_TRUE((*runner)->Logits(kTokens, {}).ok());
}

TEST_F(RefusalTest, AMissingTensorIsNamed) {
  const std::string error = LoadError([](Tensors& t) { t.erase("model.layers.1.mlp.up_proj.weight"); });
  EXPECT_NE(error.find("blk.1.ffn_up.weight"), std::string::npos) << error;
}

TEST_F(RefusalTest, ATensorThatTheFamilyDoesNotKnowIsNamed) {
  const std::string error = LoadError([](Tensors& t) {
    t["model.layers.1.self_attn.q_norm.weight"] = {{16}, std::vector<float>(16, 1.0f)};
  });
  EXPECT_NE(error.find("q_norm"), std::string::npos) << error;
}

TEST_F(RefusalTest, AWrongShapeIsNamedWithBothShapes) {
  const std::string error = LoadError([](Tensors& t) {
    t["model.layers.0.self_attn.k_proj.weight"] = {{32, 63}, std::vector<float>(32 * 63, 0.1f)};
  });
  EXPECT_NE(error.find("model.layers.0.self_attn.k_proj.weight"), std::string::npos) << error;
  EXPECT_NE(error.find("63"), std::string::npos) << error;
  EXPECT_NE(error.find("64"), std::string::npos) << error;
}

TEST_F(RefusalTest, ATokenOutsideTheVocabularyIsNamedAndTheCacheStaysAsItWas) {
  auto runner = LoadChanged([](Tensors&) {});
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  for (const int32_t bad : {-1, 288, std::numeric_limits<int32_t>::max()}) {
    const int32_t tokens[] = {5, bad, 7};
    const auto logits = (*runner)->Logits(tokens, {});
    ASSERT_FALSE(logits.ok());
    EXPECT_EQ(logits.status().code(), StatusCode::kOutOfRange);
    EXPECT_NE(logits.status().message().find(std::to_string(bad)), std::string::npos)
        << logits.status().message();
    EXPECT_NE(logits.status().message().find("288"), std::string::npos) << logits.status().message();
  }
}

TEST_F(RefusalTest, NotANumberInsideALayerIsRefusedByTheCache) {
  for (const CodecId codec : AllCodecs()) {
    auto runner = LoadChanged([](Tensors& t) {
      t["model.layers.0.mlp.down_proj.weight"].values[3] = std::numeric_limits<float>::quiet_NaN();
    });
    ASSERT_TRUE(runner.ok()) << runner.status().message();
    const auto logits = (*runner)->Logits(kTokens, {codec, StorageId::kContiguous, 0, false});
    ASSERT_FALSE(logits.ok()) << CodecName(codec);
    EXPECT_NE(logits.status().message().find("layer 1"), std::string::npos) << logits.status().message();
  }
}

TEST_F(RefusalTest, NotANumberInTheLastLayerIsRefusedBeforeTheHead) {
  auto runner = LoadChanged([](Tensors& t) {
    t["model.layers.1.mlp.down_proj.weight"].values[3] = std::numeric_limits<float>::infinity();
  });
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const auto logits = (*runner)->Logits(kTokens, {});
  ASSERT_FALSE(logits.ok());
  EXPECT_NE(logits.status().message().find("after the last layer"), std::string::npos)
      << logits.status().message();
}

TEST_F(RefusalTest, AFolderSaysWhyItHasNoTokenizer) {
  const auto runner = LoadChanged([](Tensors&) {});
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  EXPECT_EQ((*runner)->loaded().tokenizer, nullptr);
  EXPECT_NE((*runner)->loaded().tokenizer_missing.find("tokenizer.json"), std::string::npos)
      << (*runner)->loaded().tokenizer_missing;
}

// The pass below uses the model directly, for what ModelRunner does not show.
class ForwardTest : public RefusalTest {
 protected:
  void SetUp() override {
    RefusalTest::SetUp();
    pool_ = std::move(*ThreadPool::Create(2));
    auto loaded = LoadModel(Golden().string(), {}, *pool_);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = std::move(loaded->model);
    CacheConfig config;
    config.layers = CacheLayers(model_->config());
    config.max_context = 64;
    auto cache = SequenceCache::Create(config, std::make_shared<CacheMemory>());
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    cache_ = std::move(*cache);
  }

  Status Step(std::span<const int32_t> tokens, std::span<const int64_t> rows, float* logits,
              const LayerTraceSink* trace = nullptr) {
    const BatchSlice slice{cache_.get(), static_cast<int64_t>(tokens.size())};
    auto kv = KvBatch::Begin({&slice, 1}, workspace_, *pool_);
    if (!kv.ok()) return kv.status();
    if (Status status = model_->Forward(tokens, *kv, rows, logits, trace); !status.ok()) return status;
    return kv->Commit();
  }

  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<SequenceCache> cache_;
  AttentionWorkspace workspace_;
};

TEST_F(ForwardTest, LogitsComeForTheWantedRowsAloneAndWithTheSameBits) {
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  std::vector<float> all(4 * vocab), some(2 * vocab);
  const int64_t every[] = {0, 1, 2, 3};
  const int64_t wanted[] = {1, 3};
  ASSERT_TRUE(Step(kTokens, every, all.data()).ok());
  cache_->Clear();
  ASSERT_TRUE(Step(kTokens, wanted, some.data()).ok());
  EXPECT_EQ(std::memcmp(some.data(), all.data() + vocab, vocab * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(some.data() + vocab, all.data() + 3 * vocab, vocab * sizeof(float)), 0);
  const int64_t disordered[] = {2, 1};
  const int64_t past[] = {4};
  EXPECT_EQ(Step(kTokens, disordered, some.data()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Step(kTokens, past, some.data()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_->length(), 4);
}

TEST_F(ForwardTest, ATraceSeesEveryLayerAndEveryTokenAndChangesNothing) {
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  const int64_t last[] = {3};
  std::vector<float> plain(vocab), traced(vocab);
  ASSERT_TRUE(Step(kTokens, last, plain.data()).ok());
  cache_->Clear();
  std::vector<LayerTrace> seen;
  const LayerTraceSink sink = [&](const LayerTrace& t) { seen.push_back(t); };
  ASSERT_TRUE(Step(kTokens, last, traced.data(), &sink).ok());
  EXPECT_EQ(plain, traced);
  ASSERT_EQ(seen.size(), 3u);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].layer, static_cast<int>(i) - 1);
    EXPECT_EQ(seen[i].tokens, 4);
    EXPECT_EQ(seen[i].dim, 64);
    EXPECT_EQ(seen[i].nans + seen[i].infs, 0);
    EXPECT_LT(seen[i].min, seen[i].mean);
    EXPECT_GT(seen[i].max, seen[i].mean);
  }
}

TEST_F(ForwardTest, ScratchGrowsWithTheBatchAndThenStays) {
  std::vector<float> logits(static_cast<size_t>(model_->config().vocab_size));
  const int64_t last[] = {3};
  ASSERT_TRUE(Step(kTokens, last, logits.data()).ok());
  const int64_t scratch = model_->scratch_bytes();
  EXPECT_GT(scratch, 0);
  const int64_t first[] = {0};
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Step({kTokens, 1}, first, logits.data()).ok());
  EXPECT_EQ(model_->scratch_bytes(), scratch);
}

TEST_F(ForwardTest, LoadingReportsProgressUpToTheWholeFile) {
  int64_t last = 0, total = 0;
  LoadOptions options;
  options.progress = [&](int64_t done, int64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  const auto loaded = LoadModel(Golden().string(), options, *pool_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 0);
}

}  // namespace
}  // namespace holdfast
