#include "holdfast/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() : folder_(fs::path(testing::TempDir()) / ("output_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string Path(const char* name) const { return (folder_ / name).string(); }
  static Status Write(const std::string& path, const char* text) {
    OutputFile file(path);
    if (Status s = file.Check(); !s.ok()) return s;
    file.stream() << text;
    return file.Finish();
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, AFileHasItsNameWhenItIsCompleteAndLeavesNothingBefore) {
  ASSERT_TRUE(Write(Path("a"), "old").ok());
  {
    OutputFile file(Path("a"));
    file.stream() << "half";
    EXPECT_EQ(Read(Path("a")), "old");
  }
  EXPECT_EQ(Read(Path("a")), "old");
  EXPECT_EQ(Files(), 1u);
  ASSERT_TRUE(Write(Path("a"), "new").ok());
  EXPECT_EQ(Read(Path("a")), "new");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(OutputFileTest, ALinkAndAPipeAreWrittenToAndStayWhatTheyAre) {
  fs::create_symlink("linked", Path("link"));
  ASSERT_TRUE(Write(Path("link"), "text").ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("linked")), "text");
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  const int reader = ::open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(Write(Path("pipe"), "text").ok());
  char bytes[8];
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 4);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(Path("pipe")));
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsNamedWithTheReason) {
  const Status s = Write(Path("no/such"), "text");
  EXPECT_EQ(s.code(), StatusCode::kIoError);
  EXPECT_NE(s.message().find(Path("no/such") + ": No such file"), std::string::npos) << s.message();
  EXPECT_EQ(Write(folder_.string(), "text").code(), StatusCode::kIoError) << "a folder";
}

}  // namespace
}  // namespace holdfast
