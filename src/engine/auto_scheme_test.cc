// A choice by target: that it is met, that it is the same twice, and what a file of choices is trusted with.
#include "holdfast/auto_scheme.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "holdfast/eval.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGolden = HOLDFAST_SOURCE_DIR "/tests/golden/";

AutoOptions Target(double kld) {
  AutoOptions options;
  options.kld = kld;
  options.ranking_tokens = 48;
  options.context_tokens = 64;
  return options;
}

std::vector<int32_t> Text(int n) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(3 + (i * i * 7 + i * 5) % 90);
  return tokens;
}

int64_t BytesOf(const Engine& engine, const CacheOptions& options) {
  int64_t bytes = 0;
  const CacheConfig config = engine.MakeCacheConfig(options).value();
  for (const LayerConfig& layer : config.layers) bytes += RowBytes(layer).value();
  return bytes;
}

class AutoSchemeTest : public testing::Test {
 protected:
  AutoSchemeTest()
      : folder_(
            fs::path(testing::TempDir()) /
            (std::string("holdfast_auto_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~AutoSchemeTest() override { fs::remove_all(folder_); }

  std::unique_ptr<Engine> Load(const std::string& golden = "llama_tied") {
    const fs::path to = folder_ / "model.gguf";
    fs::copy(std::string(kGolden) + golden + "/model.gguf", to, fs::copy_options::overwrite_existing);
    EngineOptions options;
    options.threads = 2;
    return Engine::Load(to.string(), options).value();
  }
  static AutoScheme Choose(Engine& engine, double kld, const CacheOptions& base = {}) {
    auto scheme = ChooseScheme(engine, Text(48 + 2 * 64), base, Target(kld));
    EXPECT_TRUE(scheme.ok()) << scheme.status().message();
    return std::move(scheme).value();
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  fs::path folder_;
};

TEST_F(AutoSchemeTest, TheTargetIsMetOnHeldOutTokensAndALooserOneNeverTakesMoreBytes) {
  for (const char* golden : {"llama_tied", "gemma3"}) {
    const auto engine = Load(golden);
    const std::vector<int32_t> text = Text(48 + 2 * 64);
    const int64_t f16 = BytesOf(*engine, {});
    int64_t before = f16 + 1, first = 0;
    for (const double kld : {1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 10.0}) {
      const AutoScheme scheme = Choose(*engine, kld);
      EXPECT_LE(scheme.bytes_per_token, before) << golden << " " << kld;
      before = scheme.bytes_per_token;
      if (first == 0) first = before;
      EXPECT_LE(scheme.kld_held_out, 0.65 * kld);
      const CacheOptions options = WithScheme({}, scheme);
      EXPECT_EQ(BytesOf(*engine, options), scheme.bytes_per_token);
      EvalOptions how;
      how.context_tokens = 64;
      const auto measured =
          MeasureQuality(*engine, std::span(text).subspan(48), {}, {&options, 1}, how).value();
      EXPECT_EQ(measured.schemes[0].kld_mean, scheme.kld_held_out) << golden << " " << kld;
    }
    EXPECT_EQ(first, f16) << "nothing but f16 itself diverges so little";
    EXPECT_LT(4 * before, f16) << "2 bits meet any target";
  }
}

TEST_F(AutoSchemeTest, TheSameArgumentsGiveTheSameChoiceWhateverTheBatches) {
  const auto engine = Load();
  const AutoScheme scheme = Choose(*engine, 1e-3);
  EXPECT_EQ(Choose(*engine, 1e-3), scheme);
  AutoOptions options = Target(1e-3);
  options.batch_tokens = 7;
  EXPECT_EQ(ChooseScheme(*engine, Text(48 + 2 * 64), {}, options).value(), scheme);
  EXPECT_EQ(scheme.layers.front().first, 0);
  EXPECT_EQ(scheme.layers.back().last, engine->info().layers - 1);
}

TEST_F(AutoSchemeTest, LayersThatMustStayF16DoAndWhatIsProtectedStaysSo) {
  const auto engine = Load("gemma3");
  CacheOptions base;
  base.protect_layers = 1;
  base.protection.sink_tokens = 2;
  const AutoScheme scheme = Choose(*engine, 10.0, base);
  ASSERT_EQ(scheme.layers.size(), 3u) << LayerSchemesName(scheme.layers);
  EXPECT_EQ(scheme.layers[0], (LayerScheme{0, 0, {}}));
  EXPECT_EQ(scheme.layers[1],
            (LayerScheme{1, engine->info().layers - 2, {CodecId::kAura2, CodecId::kAura2}}));
  EXPECT_EQ(scheme.layers[2].codecs, KvSpec{});
  EXPECT_EQ(scheme.protection, base.protection);
}

TEST_F(AutoSchemeTest, RotationOffLeavesOutTheCodecsThatNeedItAndOnDoesNotRefuseF16) {
  const auto engine = Load();
  CacheOptions base;
  base.rotate = KvRotate::kOff;
  const AutoScheme plain = Choose(*engine, 10.0, base);
  EXPECT_TRUE(engine->MakeCacheConfig(WithScheme(base, plain)).ok());
  EXPECT_EQ(LayerSchemesName(plain.layers), "0-1=affine4");
  base.rotate = KvRotate::kOn;
  EXPECT_TRUE(engine->MakeCacheConfig(WithScheme(base, Choose(*engine, 1e-9, base))).ok());
}

// The tiny model's weights are so even that many rows of a chunk weigh less than 1/50.
TEST_F(AutoSchemeTest, WhatSparseAttentionLeavesOutCountsAgainstTheTarget) {
  const auto engine = Load();
  CacheOptions base;
  base.sparse_v = 0.02f;
  const AutoScheme scheme = Choose(*engine, 1.0, base);
  const CacheOptions options = WithScheme(base, scheme);
  EvalOptions how;
  how.context_tokens = 64;
  const std::vector<int32_t> text = Text(48 + 2 * 64);
  const auto dense =
      MeasureQuality(*engine, std::span(text).subspan(48), {}, {&options, 1}, how).value().schemes[0];
  EXPECT_EQ(dense.kld_mean, scheme.kld_held_out);
  const Status s = ChooseScheme(*engine, text, base, Target(1e-9)).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(s.message().find("sparse_v 0.02"), std::string::npos) << s.message();
  base.sparse_v = 1e-8f;
  EXPECT_NE(MakeAutoKey(*engine, text, base, Target(1.0)).value().conditions,
            MakeAutoKey(*engine, text, {}, Target(1.0)).value().conditions);
}

TEST_F(AutoSchemeTest, ItsOwnTextIsTheSameTwiceAndDoesForAChoice) {
  for (const char* golden : {"llama_tied", "gemma3"}) {
    const auto engine = Load(golden);
    const auto tokens = SampleCalibrationTokens(*engine, {}, Target(1e-3)).value();
    EXPECT_EQ(tokens.size(), 48u + 2 * 64);
    EXPECT_NE(std::vector<int32_t>(tokens.begin() + 48, tokens.begin() + 112),
              std::vector<int32_t>(tokens.begin() + 112, tokens.end()));
    EXPECT_EQ(SampleCalibrationTokens(*engine, {}, Target(1e-3)).value(), tokens);
    EXPECT_LE(ChooseScheme(*engine, tokens, {}, Target(1e-3))->kld_held_out, 1e-3);
  }
}

TEST_F(AutoSchemeTest, WhatCannotBeAskedForIsRefusedWithItsLimit) {
  const auto engine = Load();
  const auto refused = [&](const AutoOptions& options, int tokens, const CacheOptions& base,
                           std::initializer_list<const char*> words) {
    const Status s = ChooseScheme(*engine, Text(tokens), base, options).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
    for (const char* word : words) EXPECT_NE(s.message().find(word), std::string::npos) << s.message();
  };
  refused(Target(0.0), 200, {}, {"kld is 0", "> 0"});
  refused(Target(-1.0), 200, {}, {"kld is -1"});
  refused(Target(std::nan("")), 200, {}, {"kld is"});
  refused(Target(1e-3), 48 + 63, {}, {"111 tokens", "112"});
  AutoOptions options = Target(1e-3);
  options.held_out_chunks = 0;
  refused(options, 200, {}, {"held_out_chunks is 0", "1"});
  CacheOptions base;
  base.layers = {{0, 0, {}}};
  refused(Target(1e-3), 200, base, {"layers are 0=f16", "empty"});
}

TEST_F(AutoSchemeTest, AChoiceIsFoundAgainForTheSameModelTargetAndConditionsOnly) {
  const auto engine = Load();
  const std::string path = DefaultAutoSchemePath(engine->info().path);
  EXPECT_EQ(path, engine->info().path + ".kv-auto.json");
  const std::vector<int32_t> text = Text(48 + 2 * 64);
  const auto key_of = [&](double kld, const CacheOptions& base = {}) {
    return MakeAutoKey(*engine, text, base, Target(kld)).value();
  };
  const auto load = [&](const AutoKey& key) { return LoadAutoScheme(*engine, key, {}, path); };
  EXPECT_EQ(load(key_of(1e-3)).status().code(), StatusCode::kNotFound);
  const AutoScheme tight = Choose(*engine, 1e-5), loose = Choose(*engine, 1e-2);
  ASSERT_NE(tight, loose);
  ASSERT_TRUE(SaveAutoScheme(*engine, key_of(1e-5), loose, path).ok());
  ASSERT_TRUE(SaveAutoScheme(*engine, key_of(1e-2), loose, path).ok());
  ASSERT_TRUE(SaveAutoScheme(*engine, key_of(1e-5), tight, path).ok()) << "replaces";
  EXPECT_EQ(load(key_of(1e-5)).value(), tight);
  EXPECT_EQ(load(key_of(1e-2)).value(), loose);
  EXPECT_EQ(load(key_of(2e-2)).status().code(), StatusCode::kNotFound);
  CacheOptions window;
  window.window_tokens = 32;
  EXPECT_EQ(load(key_of(1e-2, window)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(load(MakeAutoKey(*engine, {}, {}, Target(1e-2)).value()).status().code(), StatusCode::kNotFound);

  const auto other = Load("llama_biased");  // the model's file is replaced
  const Status s = LoadAutoScheme(*other, key_of(1e-2), {}, path).status();
  EXPECT_EQ(s.code(), StatusCode::kNotFound);
  EXPECT_NE(s.message().find("another model"), std::string::npos) << s.message();
  ASSERT_TRUE(SaveAutoScheme(*other, key_of(1e-2), Choose(*other, 1e-2), path).ok());
  EXPECT_TRUE(LoadAutoScheme(*other, key_of(1e-2), {}, path).ok());
}

TEST_F(AutoSchemeTest, ADamagedFileIsRefusedByNameAndField) {
  const auto engine = Load();
  const std::string path = DefaultAutoSchemePath(engine->info().path);
  const AutoKey key = MakeAutoKey(*engine, {}, {}, Target(1e-2)).value();
  const AutoScheme scheme = Choose(*engine, 1e-2);
  ASSERT_TRUE(SaveAutoScheme(*engine, key, scheme, path).ok());
  const std::string good = Read(path);
  const auto refused = [&](const std::string& from, const std::string& to, StatusCode code,
                           const char* word) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    Write(path, text);
    const Status s = LoadAutoScheme(*engine, key, {}, path).status();
    EXPECT_EQ(s.code(), code) << s.message();
    EXPECT_NE(s.message().find(path), std::string::npos) << s.message();
    EXPECT_NE(s.message().find(word), std::string::npos) << s.message();
  };
  const std::string layers = "\"layers\": \"" + LayerSchemesName(scheme.layers) + "\"";
  const std::string bytes = "\"bytes_per_token\": " + std::to_string(scheme.bytes_per_token);
  refused(layers, "\"layers\": \"0-4095=int8\"", StatusCode::kDataLoss, "the model has");
  refused(layers, "\"layers\": \"0=no-such-codec\"", StatusCode::kDataLoss, "no-such-codec");
  refused(layers, "\"layers\": 7", StatusCode::kDataLoss, "layers is 7");
  refused(bytes, "\"bytes_per_token\": 1", StatusCode::kDataLoss, "bytes_per_token is 1");
  refused(bytes, "\"bytes_per_token\": -1", StatusCode::kDataLoss, "bytes_per_token is -1");
  refused(bytes, "\"bytes\": 1", StatusCode::kDataLoss, "bytes_per_token is missing");
  refused("\"kld_held_out\": ", "\"kld_held_out\": 9", StatusCode::kDataLoss, "kld_held_out is 9");
  refused("\"protect_sinks\": ", "\"protect_sinks\": 1.5, \"was\": ", StatusCode::kDataLoss,
          "protect_sinks is 1.5");
  refused("\"version\": 1", "\"version\": 2", StatusCode::kUnimplemented, "version 2");
  refused("holdfast kv auto", "holdfast kv", StatusCode::kDataLoss, "not a file of cache choices");
  refused("\"schemes\": [", "\"schemes\": [[],", StatusCode::kDataLoss, "scheme 0");
  for (size_t cut = 0; cut + 2 < good.size(); cut += 13) {
    Write(path, good.substr(0, cut));
    const Status s = LoadAutoScheme(*engine, key, {}, path).status();
    EXPECT_EQ(s.code(), StatusCode::kDataLoss) << cut << ": " << s.message();
    EXPECT_NE(s.message().find(path), std::string::npos) << s.message();
  }
  EXPECT_EQ(SaveAutoScheme(*engine, key, scheme, path).code(), StatusCode::kDataLoss) << "nor is it lost";
  Write(path, std::string(2 << 20, '['));
  EXPECT_EQ(LoadAutoScheme(*engine, key, {}, path).status().code(), StatusCode::kDataLoss);
  Write(path, good);
  EXPECT_EQ(LoadAutoScheme(*engine, key, {}, path).value(), scheme);
}

}  // namespace
}  // namespace holdfast
