// Runs a fuzz target's committed inputs through its entry function, in an ordinary build.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

int HOLDFAST_FUZZ_ENTRY(const uint8_t* data, size_t size);

namespace {

TEST(FuzzCorpus, EveryCommittedInputRunsWithoutACrash) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(HOLDFAST_FUZZ_CORPUS))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty()) << "no inputs in " << HOLDFAST_FUZZ_CORPUS;
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    // Its own exactly sized memory: a sanitizer sees the first byte read past the end.
    const std::vector<uint8_t> input(bytes.begin(), bytes.end());
    EXPECT_EQ(HOLDFAST_FUZZ_ENTRY(input.data(), input.size()), 0);
  }
}

}  // namespace
