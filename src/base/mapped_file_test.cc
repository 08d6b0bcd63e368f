#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace holdfast {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("mapped_file_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }

 private:
  std::filesystem::path directory_;
};

std::string Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(MappedFileTest, ShowsTheBytesOfAFile) {
  const std::string path = Write("a", std::string("weights\0and more", 16));
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(Text(**file), std::string("weights\0and more", 16));
  EXPECT_EQ((*file)->path(), path);
}

TEST_F(MappedFileTest, OutlivesTheRemovalOfItsName) {
  const std::string path = Write("a", "still here");
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::remove(path);
  EXPECT_EQ(Text(**file), "still here");
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  const auto file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE((*file)->bytes().empty());
  (*file)->Forget(0, 100);
}

TEST_F(MappedFileTest, ForgottenPagesKeepTheirContentWhereverTheRangeLies) {
  std::string content(100'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  const auto file = MappedFile::Open(Write("big", content));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(Text(**file), content);
  (*file)->Forget(1, 70'000);
  (*file)->Forget(50'000, 1'000'000);
  (*file)->Forget(-5, 10);
  (*file)->Forget(0, 100'000);
  (*file)->Forget(200'000, 5);
  EXPECT_EQ(Text(**file), content);
}

TEST_F(MappedFileTest, EveryRefusalNamesThePathAndTheReason) {
  const auto missing = MappedFile::Open(Path("nowhere/model.gguf"));
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find(Path("nowhere/model.gguf")), std::string::npos);

  const auto under_file = MappedFile::Open(Write("file", "x") + "/model.gguf");
  EXPECT_EQ(under_file.status().code(), StatusCode::kNotFound);

  const auto folder = MappedFile::Open(Path(""));
  EXPECT_EQ(folder.status().code(), StatusCode::kIoError);
  EXPECT_NE(folder.status().message().find("not a regular file"), std::string::npos)
      << folder.status().message();

  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(Path("fifo")).status().code(), StatusCode::kIoError);
}

TEST_F(MappedFileTest, AFileWithoutPermissionIsAnIoError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = Write("secret", "x");
  chmod(path.c_str(), 0);
  const auto file = MappedFile::Open(path);
  EXPECT_EQ(file.status().code(), StatusCode::kIoError);
  EXPECT_NE(file.status().message().find(path), std::string::npos);
}

}  // namespace
}  // namespace holdfast
