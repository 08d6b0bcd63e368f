// Calibration: what is measured, what is written, what is used, and what is refused.
#include "holdfast/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "codec/codec.h"
#include "engine/center_file.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGolden = HOLDFAST_SOURCE_DIR "/tests/golden/";

// A folder of its own for every test: files beside a model are found by themselves.
class CalibrateTest : public testing::Test {
 protected:
  CalibrateTest()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("holdfast_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CalibrateTest() override { fs::remove_all(folder_); }

  std::string Copy(const std::string& golden, const std::string& name) {
    const fs::path to = folder_ / name;
    fs::copy(kGolden + golden, to, fs::copy_options::recursive);
    return to.string();
  }
  static std::unique_ptr<Engine> Load(const std::string& path) {
    EngineOptions options;
    options.threads = 2;
    auto engine = Engine::Load(path, options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return std::move(engine).value();
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

std::vector<int32_t> Text(int n) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(3 + (i * i * 7 + i * 5) % 90);
  return tokens;
}

CacheOptions With(CodecSpec codec) {
  CacheOptions options;
  options.k_codec = options.v_codec = codec;
  return options;
}

bool Centred(const CacheConfig& config) {
  return config.layers[0].k_transform.center != nullptr;
}

std::vector<float> LastLogits(Engine& engine, const CacheOptions& options) {
  std::vector<float> last;
  LogitsOptions how;
  how.last_n = 1;
  const Status status = engine.Logits(Text(60), options, how, [&](int64_t, int64_t, const float* logits) {
    last.assign(logits, logits + engine.info().vocab_size);
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return last;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

TEST_F(CalibrateTest, MeansDoNotDependOnBatchesAndAreOfEveryLayer) {
  const auto engine = Load(Copy("gemma3/model.gguf", "model.gguf"));
  const auto whole =
      Calibrate(*engine, Text(100), {.context_tokens = 50, .chunks = 0, .values = true, .batch_tokens = 512});
  const auto steps =
      Calibrate(*engine, Text(100), {.context_tokens = 50, .chunks = 0, .values = true, .batch_tokens = 7});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->tokens, 100);
  ASSERT_EQ(whole->layers.size(), static_cast<size_t>(engine->info().layers));
  for (size_t i = 0; i < whole->layers.size(); ++i) {
    const auto row = static_cast<size_t>(engine->info().kv_heads * engine->info().head_dim);
    ASSERT_EQ(whole->layers[i].k->size(), row);
    EXPECT_EQ(*whole->layers[i].k, *steps->layers[i].k) << i;
    EXPECT_EQ(*whole->layers[i].v, *steps->layers[i].v) << i;
    EXPECT_NE(*whole->layers[i].k, std::vector<float>(row)) << i;
  }
  const auto first = Calibrate(*engine, Text(100), {.context_tokens = 50, .chunks = 1});
  EXPECT_EQ(first->tokens, 50);
  EXPECT_NE(*first->layers[0].k, *whole->layers[0].k);
  EXPECT_EQ(first->layers[0].v, nullptr) << "values are centred only where it was asked for";
}

// Of one token: K and V of the layer are the mean, so what is stored of position 0 is zero, and the output exact.
TEST_F(CalibrateTest, TheMeanOfOneTokenIsItsRow) {
  const auto engine = Load(Copy("llama_tied/model.gguf", "model.gguf"));
  const std::vector<int32_t> token = {5};
  const auto centers = Calibrate(*engine, token, {.values = true});
  ASSERT_TRUE(centers.ok()) << centers.status().message();
  ASSERT_TRUE(WriteCenters(*engine, *centers, DefaultCenterPath(engine->info().path)).ok());
  std::vector<float> exact, centred;
  const auto logits = [&](const CacheOptions& options, std::vector<float>& to) {
    const auto sink = [&](int64_t, int64_t, const float* l) { to.assign(l, l + engine->info().vocab_size); };
    // Calibration begins with BOS where the model adds one.
    const int32_t first = engine->adds_bos() ? engine->bos_token() : token[0];
    EXPECT_TRUE(engine->Logits({&first, 1}, options, {}, sink).ok());
  };
  logits(With(CodecId::kF32), exact);
  logits(With(CodecId::kInt8), centred);
  EXPECT_LT(Distance(exact, centred), 1e-5);
}

TEST_F(CalibrateTest, AFileBesideTheModelIsUsedByIntegerCodecsAndOnlyThere) {
  const std::string path = Copy("llama_biased/model.gguf", "model.gguf");
  const auto engine = Load(path);
  EXPECT_EQ(DefaultCenterPath(path), path + ".centers");
  EXPECT_FALSE(Centred(engine->MakeCacheConfig(With(CodecId::kInt8)).value()));
  const std::vector<float> plain = LastLogits(*engine, With(CodecId::kInt8));
  const auto centers = Calibrate(*engine, Text(300), {.context_tokens = 60, .values = true});
  ASSERT_TRUE(WriteCenters(*engine, *centers, DefaultCenterPath(path)).ok());

  const CacheConfig config = engine->MakeCacheConfig(With(CodecId::kInt8)).value();
  EXPECT_TRUE(Centred(config));
  EXPECT_EQ(*config.layers[1].v_transform.center, *centers->layers[1].v);
  EXPECT_EQ(engine->MakeCacheConfig(With(CodecId::kInt8))->layers[0].k_transform.center,
            config.layers[0].k_transform.center)
      << "caches share what was read";
  EXPECT_FALSE(Centred(engine->MakeCacheConfig(With(CodecId::kF16)).value()));
  CacheOptions mixed = With(CodecId::kF16);
  mixed.v_codec = CodecId::kInt8;
  const CacheConfig half = engine->MakeCacheConfig(mixed).value();
  EXPECT_EQ(half.layers[0].k_transform.center, nullptr);
  EXPECT_NE(half.layers[0].v_transform.center, nullptr);
  CacheOptions off = With(CodecId::kInt8);
  off.center = false;
  EXPECT_FALSE(Centred(engine->MakeCacheConfig(off).value()));

  const std::vector<float> exact = LastLogits(*engine, With(CodecId::kF32));
  const double centred = Distance(LastLogits(*engine, With(CodecId::kInt8)), exact);
  EXPECT_NE(centred, 0.0);
  EXPECT_LT(centred, 1.5 * Distance(plain, exact));
  EXPECT_EQ(LastLogits(*engine, off), plain);
}

TEST_F(CalibrateTest, AFolderKeepsItsCentresInside) {
  const std::string path = Copy("llama_tied/hf", "folder");
  const auto engine = Load(path);
  const auto centers = Calibrate(*engine, Text(40), {});
  ASSERT_TRUE(WriteCenters(*engine, *centers, DefaultCenterPath(path)).ok());
  EXPECT_TRUE(fs::exists(Path("folder/model.centers")));
  EXPECT_EQ(engine->MakeCacheConfig(With(CodecId::kInt8))->layers[0].v_transform.center, nullptr);
  EXPECT_TRUE(Centred(engine->MakeCacheConfig(With(CodecId::kInt8)).value()));
  EXPECT_TRUE(Centred(Load(path)->MakeCacheConfig(With(CodecId::kInt8)).value()))
      << "the model loads as before";
}

TEST_F(CalibrateTest, WhatWasWrittenIsReadForThisModelOnly) {
  const auto engine = Load(Copy("llama_tied/model.gguf", "a.gguf"));
  const auto other = Load(Copy("gemma3/model.gguf", "b.gguf"));
  const auto centers = Calibrate(*engine, Text(64), {}).value();
  const std::string path = Path("centers");
  ASSERT_TRUE(WriteCenters(*engine, centers, path).ok());
  EXPECT_FALSE(fs::exists(path + ".partial"));
  const auto read = ReadCenters(*engine, path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->tokens, 64);
  for (size_t i = 0; i < centers.layers.size(); ++i) EXPECT_EQ(*read->layers[i].k, *centers.layers[i].k);

  CacheOptions options = With(CodecId::kInt8);
  options.center_file = path;
  EXPECT_TRUE(Centred(engine->MakeCacheConfig(options).value()));
  EXPECT_EQ(other->MakeCacheConfig(options).status().code(), StatusCode::kInvalidArgument);
  options.center_file = Path("missing");
  EXPECT_EQ(engine->MakeCacheConfig(options).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(WriteCenters(*other, centers, path).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteCenters(*engine, centers, Path("no/such/folder")).code(), StatusCode::kIoError);

  // The same architecture and shape with other weights: one byte in the last tensor.
  std::fstream weights(Path("a.gguf"), std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-3, std::ios::end);
  weights.put('\x11');
  weights.close();
  const Status changed = ReadCenters(*Load(Path("a.gguf")), path).status();
  EXPECT_EQ(changed.message(),
            path + ": made for another model (its fingerprint differs): calibrate this one");
}

TEST_F(CalibrateTest, OptionsThatCannotBeMetAreRefusedByName) {
  const auto engine = Load(Copy("llama_tied/model.gguf", "model.gguf"));
  const auto refusal = [&](const CacheOptions& options) {
    const auto config = engine->MakeCacheConfig(options);
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
    return config.status().message();
  };
  CacheOptions options;
  options.rotate = KvRotate::kOn;
  EXPECT_EQ(refusal(options), "cache: rotate is on, but no layer has an integer codec: layer 0 is f16");
  options.rotate = KvRotate::kAuto;
  options.center_file = "x";
  EXPECT_EQ(refusal(options),
            "cache: center_file is x, but no layer has an integer codec, which it could help");
  options.center = false;
  EXPECT_EQ(refusal(options), "cache: center_file is x, but center is off");
  const auto calibration = [&](std::vector<int32_t> tokens, const CalibrateOptions& how) {
    return Calibrate(*engine, tokens, how).status().message();
  };
  EXPECT_EQ(calibration({}, {}), "calibrate: 0 tokens, must have at least 1");
  EXPECT_EQ(calibration({1}, {.context_tokens = 0}), "calibrate: context_tokens is 0, must be >= 1");
  EXPECT_EQ(calibration({1}, {.chunks = -1}), "calibrate: chunks is -1, must be >= 0");
  EXPECT_EQ(calibration({1}, {.batch_tokens = 0}), "calibrate: batch_tokens is 0, must be >= 1");
}

TEST_F(CalibrateTest, RotationFollowsTheCodecsBits) {
  const auto engine = Load(Copy("llama_tied/model.gguf", "model.gguf"));
  for (const CodecId id : AllCodecs()) {
    const Codec& codec = GetCodec(id);
    CacheOptions options = With(id);
    const RowTransformConfig auto_k = engine->MakeCacheConfig(options)->layers[0].k_transform;
    EXPECT_EQ(auto_k.rotate, codec.integer_dots && (codec.bits < 8 || codec.always_rotated)) << codec.name;
    options.rotate = KvRotate::kOff;
    const auto off = engine->MakeCacheConfig(options);
    EXPECT_EQ(off.ok(), !codec.always_rotated) << codec.name;
    EXPECT_FALSE(off.ok() && off->layers[0].v_transform.rotate) << codec.name;
    options.rotate = KvRotate::kOn;
    const auto on = engine->MakeCacheConfig(options);
    EXPECT_EQ(on.ok(), codec.integer_dots) << codec.name;
    EXPECT_TRUE(!on.ok() || on->layers[0].v_transform.rotate) << codec.name;
  }
  CacheOptions mixed = With(CodecId::kF16);
  mixed.v_codec = CodecId::kInt8;
  mixed.rotate = KvRotate::kOn;
  EXPECT_FALSE(engine->MakeCacheConfig(mixed)->layers[0].k_transform.rotate);
  EXPECT_TRUE(engine->MakeCacheConfig(mixed)->layers[0].v_transform.rotate);
}

// A small model's file, and every way in which it can be wrong.
class CenterFileTest : public testing::Test {
 protected:
  CenterFileTest() {
    LayerConfig layer;
    layer.kv_heads = 2;
    layer.shape = {4, 3, false};
    identity_.layers = {layer, layer};
    identity_.layers[1].shape = {4, 2, true};
    identity_.vocab_size = 99;
    identity_.fingerprint.fill(std::byte{7});
    centers_.tokens = 12;
    const auto row = [](size_t n, float x) { return std::make_shared<const std::vector<float>>(n, x); };
    centers_.layers = {{row(8, 1.5f), row(6, -2.0f)}, {row(8, 3.0f), nullptr}};
    bytes_ = EncodeCenters(identity_, centers_);
  }
  Status Decode(const std::vector<std::byte>& bytes) const {
    return DecodeCenters(bytes, identity_, "f").status();
  }
  // With the checksum made right again.
  Status DecodeChanged(size_t at, std::byte value) const {
    std::vector<std::byte> bytes = bytes_;
    bytes[at] = value;
    const Sha256 digest = Sha256Of(std::span(bytes).first(bytes.size() - 32));
    std::memcpy(bytes.data() + bytes.size() - 32, digest.data(), 32);
    return Decode(bytes);
  }

  CenterIdentity identity_;
  KvCenters centers_;
  std::vector<std::byte> bytes_;
};

TEST_F(CenterFileTest, HasTheSizeThatTheFormatPageGives) {
  EXPECT_EQ(bytes_.size(), 72u + 2 * 16 + (8 + 6 + 8) * 4 + 32);
  KvCenters keys = centers_;
  keys.layers[0].v = nullptr;
  const std::vector<std::byte> shorter = EncodeCenters(identity_, keys);
  EXPECT_EQ(shorter.size(), 72u + 2 * 16 + (8 + 8) * 4 + 32);
  EXPECT_EQ(DecodeCenters(shorter, identity_, "f")->layers[0].v, nullptr);
  const auto read = DecodeCenters(bytes_, identity_, "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read->layers[0].v, *centers_.layers[0].v);
  EXPECT_EQ(*read->layers[1].k, *centers_.layers[1].k);
  EXPECT_EQ(read->layers[1].v, nullptr);
}

TEST_F(CenterFileTest, RefusesEveryCutAndEveryFlippedBit) {
  for (size_t n = 0; n < bytes_.size(); ++n) {
    EXPECT_FALSE(Decode({bytes_.begin(), bytes_.begin() + static_cast<int64_t>(n)}).ok()) << n;
  }
  for (size_t i = 0; i < bytes_.size() * 8; ++i) {
    std::vector<std::byte> bytes = bytes_;
    bytes[i / 8] ^= static_cast<std::byte>(1 << (i % 8));
    EXPECT_FALSE(Decode(bytes).ok()) << "bit " << i;
  }
  std::vector<std::byte> longer = bytes_;
  longer.push_back({});
  EXPECT_EQ(Decode(longer).code(), StatusCode::kDataLoss);
}

TEST_F(CenterFileTest, NamesWhatIsWrongInAFileWhoseChecksumIsRight) {
  EXPECT_EQ(Decode({}).message(), "f: 0 bytes, the header and checksum take 104");
  EXPECT_EQ(DecodeChanged(0, std::byte{'X'}).message(), "f: not a file of centres");
  EXPECT_EQ(DecodeChanged(8, std::byte{2}).message(), "f: version 2, this program reads 1");
  EXPECT_EQ(DecodeChanged(12, std::byte{3}).message(), "f: 3 layers, the model has 2");
  EXPECT_EQ(DecodeChanged(16, std::byte{98}).message(), "f: vocab_size is 98, the model's is 99");
  EXPECT_EQ(DecodeChanged(24, std::byte{0}).message(), "f: tokens is 0, must be >= 1");
  EXPECT_EQ(DecodeChanged(32, std::byte{3}).message(), "f: flags 3 and 0, this program knows flags 0 and 1");
  EXPECT_EQ(DecodeChanged(36, std::byte{3}).message(), "f: flags 1 and 3, this program knows flags 0 and 1");
  EXPECT_EQ(DecodeChanged(32, std::byte{0}).message(), "f: 224 bytes, for this model it has 200");
  EXPECT_EQ(DecodeChanged(50, std::byte{0}).message(),
            "f: made for another model (its fingerprint differs): calibrate this one");
  EXPECT_EQ(DecodeChanged(72 + 16, std::byte{9}).message(),
            "f: layer 1 has 9 heads of 4/2 latent, the model's has 2 heads of 4/2 latent");
  const size_t exponent = 72 + 32 + 3;  // of K's first value: 1.5 becomes a NaN with 0x7f ff
  std::vector<std::byte> bytes = bytes_;
  bytes[exponent] = std::byte{0x7f};
  bytes[exponent - 1] = std::byte{0xff};
  const Sha256 digest = Sha256Of(std::span(bytes).first(bytes.size() - 32));
  std::memcpy(bytes.data() + bytes.size() - 32, digest.data(), 32);
  EXPECT_EQ(Decode(bytes).message(), "f: centres: K of layer 0: value 0 is nan, must be finite");
  EXPECT_EQ(Decode(bytes).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
