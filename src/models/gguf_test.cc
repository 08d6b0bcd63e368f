#include "models/gguf.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "models/test_files.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::GgufWriter;
using test::Raw;
using test::RawText;

std::string SmallFile() {
  GgufWriter file;
  file.String("general.architecture", "llama")
      .Uint32("a.count", 7)
      .Float32("a.eps", 0.5f)
      .Bool("a.flag", true);
  file.RawKey("a.u64", GgufType::kUint64, Raw<uint64_t>(uint64_t{1} << 40));
  file.RawKey("a.i8", GgufType::kInt8, Raw<int8_t>(-3)).RawKey("a.i16", GgufType::kInt16, Raw<int16_t>(-300));
  file.RawKey("a.f64", GgufType::kFloat64, Raw(0.25));
  file.Strings("a.names", {"one", "", "three"}).Numbers<int32_t>("a.ints", GgufType::kInt32, {-1, 2});
  file.Numbers<float>("a.floats", GgufType::kFloat32, {1.0f, -2.0f});
  file.Array("a.nested", GgufType::kArray, 1, Raw<uint32_t>(0) + Raw<uint64_t>(2) + "xy");
  file.Zeros("one", {4, 8}).Zeros("two", {16});
  return file.Build();
}

TEST(Gguf, ReadsEveryMetadataType) {
  const std::string bytes = SmallFile();
  const auto parsed = GgufFile::Parse(BytesOf(bytes), "small");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const GgufFile& file = **parsed;
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(*file.String("general.architecture"), "llama");
  EXPECT_EQ(*file.Int("a.count"), 7);
  EXPECT_EQ(*file.Int("a.u64"), int64_t{1} << 40);
  EXPECT_EQ(*file.Int("a.i8"), -3);
  EXPECT_EQ(*file.Int("a.i16"), -300);
  EXPECT_EQ(*file.Float("a.eps"), 0.5);
  EXPECT_EQ(*file.Float("a.f64"), 0.25);
  EXPECT_TRUE(*file.Bool("a.flag"));
  EXPECT_EQ(*file.Strings("a.names"), (std::vector<std::string_view>{"one", "", "three"}));
  EXPECT_EQ(*file.Ints("a.ints"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(*file.Floats("a.floats"), (std::vector<float>{1.0f, -2.0f}));
  EXPECT_EQ(file.metadata().size(), 12u);
}

TEST(Gguf, ReadsVersion2AsVersion3) {
  GgufWriter writer;
  writer.version = 2;
  const std::string bytes = writer.Uint32("a", 1).Zeros("t", {8}).Build();
  const auto file = GgufFile::Parse(BytesOf(bytes), "v2");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->version(), 2u);
  EXPECT_EQ((*file)->tensors().size(), 1u);
}

TEST(Gguf, TensorsAreViewsAtAlignedOffsetsOfTheFile) {
  const std::string bytes = SmallFile();
  const auto file = GgufFile::Parse(BytesOf(bytes), "small");
  ASSERT_TRUE(file.ok());
  const GgufTensor* two = (*file)->FindTensor("two");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->n_dims, 1);
  EXPECT_EQ(two->dims[0], 16);
  EXPECT_EQ(two->bytes.size(), 64u);
  EXPECT_EQ(two->offset % 32, 0);
  EXPECT_EQ(two->bytes.data(), BytesOf(bytes).data() + two->offset);
  EXPECT_EQ((*file)->FindTensor("three"), nullptr);
}

TEST(Gguf, AlignmentOfTheFileIsHonoured) {
  GgufWriter writer;
  writer.alignment = 128;
  const std::string bytes = writer.Uint32("general.alignment", 128).Zeros("a", {1}).Zeros("b", {1}).Build();
  const auto file = GgufFile::Parse(BytesOf(bytes), "aligned");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->FindTensor("b")->offset - (*file)->FindTensor("a")->offset, 128);
}

TEST(Gguf, AWrongTypeNamesKeyFoundAndWanted) {
  const std::string bytes = SmallFile();
  const auto file = GgufFile::Parse(BytesOf(bytes), "small");
  ASSERT_TRUE(file.ok());
  const Status text_as_int = (*file)->Int("general.architecture").status();
  EXPECT_EQ(text_as_int.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(text_as_int.message(),
            "read gguf \"small\": key \"general.architecture\" is of type string, wanted an integer");
  EXPECT_NE((*file)->Strings("a.ints").status().message().find("array of int32, wanted array of string"),
            std::string::npos);
  EXPECT_EQ((*file)->Bool("a.count").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Float("a.count").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Floats("a.ints").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Ints("a.nested").status().code(), StatusCode::kInvalidArgument);
  const Status missing = (*file)->Int("a.none").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "read gguf \"small\": key \"a.none\" is missing");
}

TEST(Gguf, NumbersThatDoNotFitAreRefused) {
  GgufWriter writer;
  writer.RawKey("big", GgufType::kUint64, Raw<uint64_t>(uint64_t{1} << 63));
  writer.Float32("nan", std::numeric_limits<float>::quiet_NaN());
  writer.Numbers<float>("infs", GgufType::kFloat32, {std::numeric_limits<float>::infinity()});
  const std::string bytes = writer.Build();
  const auto file = GgufFile::Parse(BytesOf(bytes), "numbers");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->Int("big").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ((*file)->Float("nan").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Floats("infs").status().code(), StatusCode::kInvalidArgument);
}

TEST(Gguf, EveryTruncationIsAnErrorAndNeverACrash) {
  const std::string bytes = SmallFile();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut =
        bytes.substr(0, length);  // its own memory, so that a sanitizer sees every overrun
    const auto file = GgufFile::Parse(BytesOf(cut), "cut");
    EXPECT_FALSE(file.ok()) << "cut to " << length << " of " << bytes.size() << " bytes";
  }
}

TEST(Gguf, EveryFlippedByteIsAnErrorOrAReadableFile) {
  const std::string bytes = SmallFile();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      const auto file = GgufFile::Parse(BytesOf(flipped), "flipped");
      if (!file.ok()) {
        EXPECT_FALSE(file.status().message().empty());
        continue;
      }
      for (const GgufTensor& tensor : (*file)->tensors()) {
        EXPECT_LE(tensor.offset + static_cast<int64_t>(tensor.bytes.size()),
                  static_cast<int64_t>(bytes.size()));
      }
    }
  }
}

TEST(Gguf, AQuarterOfAMillionTokensAreReadAsViewsQuickly) {
  std::vector<std::string> tokens(262144);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = "token" + std::to_string(i);
  const std::string bytes = GgufWriter().Strings("tokenizer.ggml.tokens", tokens).Build();
  const auto start = std::chrono::steady_clock::now();
  const auto file = GgufFile::Parse(BytesOf(bytes), "tokens");
  ASSERT_TRUE(file.ok());
  const auto views = (*file)->Strings("tokenizer.ggml.tokens");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(views.ok());
  EXPECT_EQ(views->back(), "token262143");
  EXPECT_GE(views->back().data(), bytes.data());
  EXPECT_LT(views->back().data(), bytes.data() + bytes.size());
  EXPECT_LT(elapsed.count(), 2.0) << "milliseconds are expected; this only catches a quadratic reader";
}

TEST(Gguf, OpenNamesAFileThatIsNotThere) {
  const auto file = GgufFile::Open("/nonexistent/model.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_NE(file.status().message().find("/nonexistent/model.gguf"), std::string::npos);
}

}  // namespace
}  // namespace holdfast
