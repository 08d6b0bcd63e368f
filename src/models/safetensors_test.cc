#include "models/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "models/test_files.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::Raw;
using test::SafetensorsBytes;

constexpr std::string_view kTwoTensors = R"({"__metadata__":{"format":"pt"},)"
                                         R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},)"
                                         R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";

TEST(Safetensors, ReadsTensorsInOrderOfTheirBytes) {
  const std::string bytes = SafetensorsBytes(kTwoTensors, 22);
  const auto file = SafetensorsFile::Parse(BytesOf(bytes), "two");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const SafetensorsTensor& a = (*file)->tensors()[0];
  const SafetensorsTensor& b = (*file)->tensors()[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type, DType::kF32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(b.type, DType::kBf16);
  EXPECT_EQ(b.bytes.size(), 6u);
  EXPECT_EQ(b.bytes.data() + b.bytes.size(), BytesOf(bytes).data() + bytes.size());
}

TEST(Safetensors, EveryTruncationIsAnErrorAndNeverACrash) {
  const std::string bytes = SafetensorsBytes(kTwoTensors, 22);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    EXPECT_FALSE(SafetensorsFile::Parse(BytesOf(cut), "cut").ok()) << "cut to " << length << " bytes";
  }
}

TEST(Safetensors, EveryFlippedByteIsAnErrorOrAReadableFile) {
  const std::string bytes = SafetensorsBytes(kTwoTensors, 22);
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int mask : {0x01, 0x02, 0x80, 0xff}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      const auto file = SafetensorsFile::Parse(BytesOf(flipped), "flipped");
      if (!file.ok()) continue;
      for (const SafetensorsTensor& tensor : (*file)->tensors()) {
        EXPECT_LE(tensor.offset + static_cast<int64_t>(tensor.bytes.size()),
                  static_cast<int64_t>(bytes.size()));
      }
    }
  }
}

// A model folder that lives as long as the object.
class Folder {
 public:
  Folder() {
    std::string pattern = ::testing::TempDir() + "safetensorsXXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  void Write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

std::string OneTensor(const std::string& name) {
  return SafetensorsBytes("{\"" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
}

void WriteTwoShards(const Folder& folder, std::string_view index) {
  folder.Write("one.safetensors", OneTensor("a"));
  folder.Write("two.safetensors", OneTensor("b"));
  folder.Write("model.safetensors.index.json", index);
}

TEST(SafetensorsModel, ASingleFileIsAModel) {
  const Folder folder;
  folder.Write("model.safetensors", OneTensor("a"));
  const auto model = SafetensorsModel::Open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->tensors().size(), 1u);
}

TEST(SafetensorsModel, ShardsAreOneModel) {
  const Folder folder;
  WriteTwoShards(folder, R"({"metadata":{"total_size":16},
                             "weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto model = SafetensorsModel::Open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ((*model)->tensors().size(), 2u);
  EXPECT_EQ((*model)->tensors()[1].tensor->name, "b");
}

struct BadIndex {
  std::string name;
  std::string json;
  StatusCode code;
  std::vector<std::string> said;
};

void PrintTo(const BadIndex& b, std::ostream* out) {
  *out << b.name;
}

class SafetensorsIndex : public ::testing::TestWithParam<BadIndex> {};

TEST_P(SafetensorsIndex, IsRefusedByFieldAndValue) {
  const Folder folder;
  WriteTwoShards(folder, GetParam().json);
  const auto model = SafetensorsModel::Open(folder.path());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), GetParam().code) << model.status().message();
  for (const std::string& part : GetParam().said) {
    EXPECT_NE(model.status().message().find(part), std::string::npos)
        << "wanted: " << part << "\nfound: " << model.status().message();
  }
}

constexpr auto kDataLoss = StatusCode::kDataLoss;
INSTANTIATE_TEST_SUITE_P(
    Malformed, SafetensorsIndex,
    ::testing::Values(
        BadIndex{"NotJson", "{", kDataLoss, {"not valid JSON"}},
        BadIndex{"NoMap", "{}", kDataLoss, {"weight_map is missing"}},
        BadIndex{"EmptyMap", R"({"weight_map":{}})", kDataLoss, {"weight_map names 0 files"}},
        BadIndex{"OutsideTheFolder",
                 R"({"weight_map":{"a":"../one.safetensors"}})",
                 kDataLoss,
                 {"shard of tensor \"a\" is \"../one.safetensors\"", "a file in the model's folder"}},
        BadIndex{"Absolute", R"({"weight_map":{"a":"/etc/passwd"}})", kDataLoss, {"is \"/etc/passwd\""}},
        BadIndex{"DotDot", R"({"weight_map":{"a":".."}})", kDataLoss, {"is \"..\""}},
        BadIndex{"NulByte", R"({"weight_map":{"a":"one.safetensors\u0000x"}})", kDataLoss, {"\\x00x"}},
        BadIndex{"NotAString",
                 R"({"weight_map":{"a":7}})",
                 kDataLoss,
                 {"shard of tensor \"a\" is of type integer"}},
        BadIndex{"MissingFile",
                 R"({"weight_map":{"a":"three.safetensors"}})",
                 StatusCode::kNotFound,
                 {"three.safetensors"}},
        BadIndex{"MissingTensor",
                 R"({"weight_map":{"a":"one.safetensors","c":"one.safetensors"}})",
                 kDataLoss,
                 {"tensor \"c\" is not in file \"one.safetensors\""}},
        BadIndex{"UnlistedTensor",
                 R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})",
                 kDataLoss,
                 {"tensor \"b\" of file \"two.safetensors\" is not in weight_map"}},
        BadIndex{"WrongFile",
                 R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})",
                 kDataLoss,
                 {"tensor \"a\" is in file \"one.safetensors\"", "weight_map says \"two.safetensors\""}},
        BadIndex{"TwiceInTheMap",
                 R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})",
                 kDataLoss,
                 {"key \"a\" appears twice"}},
        BadIndex{
            "TotalSize",
            R"({"metadata":{"total_size":17},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})",
            kDataLoss,
            {"total_size is 17", "have 16 bytes"}},
        BadIndex{
            "TotalSizeNegative",
            R"({"metadata":{"total_size":-1},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})",
            kDataLoss,
            {"total_size"}}),
    [](const auto& index) { return index.param.name; });

TEST(SafetensorsModel, ATensorInTwoShardsIsRefused) {
  const Folder folder;
  folder.Write("one.safetensors", OneTensor("a"));
  folder.Write("two.safetensors",
               SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                                16));
  folder.Write("model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto model = SafetensorsModel::Open(folder.path());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("tensor \"a\" is in file \"two.safetensors\", weight_map says"),
            std::string::npos)
      << model.status().message();
}

TEST(SafetensorsModel, AFolderWithoutWeightsIsNamed) {
  const Folder folder;
  const auto model = SafetensorsModel::Open(folder.path());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kNotFound);
  EXPECT_NE(model.status().message().find("model.safetensors.index.json"), std::string::npos);
}

}  // namespace
}  // namespace holdfast
