#include "engine/model_fingerprint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class ModelFingerprint : public ::testing::Test {
 protected:
  ModelFingerprint() : folder_(fs::temp_directory_path() / ("holdfast_fp_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~ModelFingerprint() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  fs::path folder_;
};

// Large enough for the fingerprint to leave bytes out.
std::string Weights() {
  std::string bytes(size_t{8} << 20, '\0');
  for (size_t i = 0; i < bytes.size(); i += 97) bytes[i] = static_cast<char>(i >> 3);
  return bytes;
}

TEST_F(ModelFingerprint, OneWeightChangedIsAnotherModelForStoredRows) {
  std::string bytes = Weights();
  const std::string path = Write("m.gguf", bytes);
  const auto digest = DigestOfModel(path), fingerprint = FingerprintOfModel(path);
  ASSERT_TRUE(digest.ok() && fingerprint.ok());
  bytes[6000] = static_cast<char>(bytes[6000] ^ 1);  // between the first sampled block and the second
  Write("m.gguf", bytes);
  EXPECT_EQ(*FingerprintOfModel(path), *fingerprint)
      << "the sample must not hold the byte, or this shows nothing";
  EXPECT_NE(*DigestOfModel(path), *digest);
}

TEST_F(ModelFingerprint, AFileThatWasMovedIsTheSameModel) {
  const std::string bytes = Weights();
  EXPECT_EQ(*DigestOfModel(Write("a.gguf", bytes)), *DigestOfModel(Write("b.gguf", bytes)));
}

TEST_F(ModelFingerprint, AFolderIsItsWeightsConfigurationAndTokenizerAndTheirNames) {
  const auto write = [&](const std::string& folder) {
    Write(folder + "/config.json", "{}");
    Write(folder + "/model-1.safetensors", "one");
    Write(folder + "/model-2.safetensors", "two");
    Write(folder + "/tokenizer.json", "[]");
    return (folder_ / folder).string();
  };
  const std::string path = write("a");
  const Sha256 digest = DigestOfModel(path).value();
  EXPECT_EQ(DigestOfModel(write("elsewhere")).value(), digest);
  Write("a/model.kv-auto.json", "{}");
  Write("a/model.centers", "x");
  Write("a/README.md", "x");
  EXPECT_EQ(DigestOfModel(path).value(), digest) << "what is kept beside a model is none of it";
  for (const char* name : {"config.json", "model-2.safetensors", "tokenizer.json"}) {
    Write(std::string("a/") + name, "other");
    EXPECT_NE(DigestOfModel(path).value(), digest) << name;
    write("a");
    EXPECT_EQ(DigestOfModel(path).value(), digest);
  }
  fs::rename(folder_ / "a/model-2.safetensors", folder_ / "a/model-0.safetensors");
  EXPECT_NE(DigestOfModel(path).value(), digest) << "another name";
}

TEST_F(ModelFingerprint, WhatIsNotThereIsNotFound) {
  const std::string path = (folder_ / "none.gguf").string();
  EXPECT_EQ(DigestOfModel(path).status().code(), StatusCode::kNotFound);
  EXPECT_NE(DigestOfModel(path).status().message().find(path), std::string::npos);
  fs::create_directory(folder_ / "empty");
  EXPECT_EQ(DigestOfModel((folder_ / "empty").string()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Sha256OfFile(folder_.string()).status().code(), StatusCode::kIoError) << "a folder has no bytes";
}

TEST_F(ModelFingerprint, AFilesDigestIsThatOfItsBytes) {
  const std::string bytes = Weights() + "tail";
  EXPECT_EQ(Sha256OfFile(Write("f", bytes)).value(), Sha256Of(std::as_bytes(std::span(bytes))));
  EXPECT_EQ(Sha256OfFile(Write("g", "")).value(), Sha256Of({}));
}

}  // namespace
}  // namespace holdfast
