#include "holdfast/replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace holdfast {
namespace {

std::string Line(int64_t input_length, const std::string& hash_ids) {
  return R"({"timestamp": 0, "input_length": )" + std::to_string(input_length) +
         R"(, "output_length": 9, "hash_ids": [)" + hash_ids + "]}\n";
}

class Replay : public ::testing::Test {
 protected:
  ~Replay() override { std::filesystem::remove(path_); }

  Result<std::vector<ReplayCell>> Run(const std::string& text, std::vector<int64_t> budgets,
                                      ReplayOptions options = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    options.trace_path = path_;
    options.budgets_tokens = std::move(budgets);
    return ReplayTrace(options);
  }

  std::string path_ = testing::TempDir() + "replay_" + std::to_string(::getpid()) + ".jsonl";
};

TEST_F(Replay, CountsWhatEachPromptFindsOfThoseBeforeIt) {
  const auto cells = Run(Line(1200, "1, 2, 3") +      // new
                             Line(1500, "1, 2, 4") +  // 2 blocks
                             Line(1200, "1, 2, 3") +  // all of it, less the token that is evaluated again
                             Line(600, "2, 3") +      // the same blocks elsewhere: nothing
                             Line(513, "1, 9") +      // 1 block
                             Line(512, "1"),          // the whole prompt, less one
                         {0}, {.bytes_per_token = 10});
  ASSERT_TRUE(cells.ok()) << cells.status().message();
  ASSERT_EQ(cells->size(), 1u);
  const ReplayCell& cell = (*cells)[0];
  EXPECT_EQ(cell.requests, 6);
  EXPECT_EQ(cell.total_tokens, 1200 + 1500 + 1200 + 600 + 513 + 512);
  EXPECT_EQ(cell.hit_tokens, 0 + 1024 + 1199 + 0 + 512 + 511);
  EXPECT_DOUBLE_EQ(cell.hit_rate,
                   static_cast<double>(cell.hit_tokens) / static_cast<double>(cell.total_tokens));
  EXPECT_EQ(cell.evictions, 0);
  EXPECT_EQ(cell.peak_tokens, 512 + 512 + 176 + 476 + 512 + 88 + 1);
  EXPECT_EQ(cell.peak_bytes, 10 * cell.peak_tokens);
}

TEST_F(Replay, GivesUpTheOldestEndsForABudgetThatItNeverPasses) {
  const std::string trace = Line(1024, "1, 2") +       // stored: 1 2
                            Line(1024, "1, 3") +       // hits 1; stored: 1 2 3
                            Line(512, "4") +           // 2 goes, the oldest end; stored: 1 3 4
                            Line(1024, "1, 2") +       // hits 1; 3 goes; stored: 1 4 2
                            Line(1536, "5, 6, 7") +    // 4, 2, 1 go
                            Line(2048, "5, 6, 8, 9");  // hits 5 6; 7 goes, and 9 finds no room
  const auto cells = Run(trace, {3 * 512, 0, 100});
  ASSERT_TRUE(cells.ok()) << cells.status().message();
  ASSERT_EQ(cells->size(), 3u);
  EXPECT_EQ((*cells)[0].hit_tokens, 512 + 512 + 1024);
  EXPECT_EQ((*cells)[0].evictions, 1 + 1 + 3 + 1);
  EXPECT_EQ((*cells)[0].peak_tokens, 3 * 512);
  EXPECT_EQ((*cells)[1].hit_tokens, 512 + 1023 + 1024);
  EXPECT_EQ((*cells)[1].budget_tokens, 0);
  EXPECT_EQ((*cells)[2].hit_tokens, 0) << "no block fits";
  EXPECT_EQ((*cells)[2].peak_tokens, 0);
}

TEST_F(Replay, HitsNoMoreOfABlockThanWasStoredAndStoresTheRest) {
  const std::string trace = Line(300, "1") +      // 300 of the block
                            Line(512, "1") +      // hits those, and stores the other 212
                            Line(1000, "1, 2") +  // hits the whole block
                            Line(300, "1");
  const auto cells = Run(trace, {0, 400});
  ASSERT_TRUE(cells.ok()) << cells.status().message();
  EXPECT_EQ((*cells)[0].hit_tokens, 300 + 512 + 299);
  EXPECT_EQ((*cells)[0].peak_tokens, 1000);
  EXPECT_EQ((*cells)[0].evictions, 0);
  EXPECT_EQ((*cells)[1].hit_tokens, 300 + 300 + 299) << "no room for the rest";
  EXPECT_EQ((*cells)[1].peak_tokens, 300);
}

TEST_F(Replay, CountsTheRowsOfLastBlocksThatNoTokenIsIn) {
  // 33 tokens take 2 blocks of 32, then 512 + 1 more take 16 + 1 blocks of their own.
  const auto cells = Run(Line(33, "1") + Line(513, "2, 3"), {0}, {.block_tokens = 32});
  ASSERT_TRUE(cells.ok());
  const double first = 31.0 / 64, both = (31.0 + 31) / (64 + 544);
  EXPECT_DOUBLE_EQ((*cells)[0].waste, (first + both) / 2);
  EXPECT_DOUBLE_EQ((*cells)[0].peak_waste, first);
  const auto small = Run(Line(33, "1") + Line(513, "2, 3"), {0}, {.block_tokens = 16});
  EXPECT_LT((*small)[0].waste, (*cells)[0].waste);
}

TEST_F(Replay, NamesLineAndFieldOfAMalformedTrace) {
  for (const auto& [line, word] : {std::pair(R"({"timestamp": 0})", "input_length"),
                                   std::pair("[]", "object"), std::pair("{", "JSON")}) {
    const auto cells = Run(Line(1, "1") + line, {0});
    ASSERT_FALSE(cells.ok()) << line;
    EXPECT_EQ(cells.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(cells.status().message().find("line 2"), std::string::npos) << cells.status().message();
    EXPECT_NE(cells.status().message().find(word), std::string::npos) << cells.status().message();
  }
}

TEST_F(Replay, RefusesOptionsThatMeanNothing) {
  const std::string good = Line(1, "1");
  EXPECT_EQ(Run(good, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Run(good, {-1}).status().code(), StatusCode::kInvalidArgument);
  for (const int block : {0, 8, 33, 512})
    EXPECT_EQ(Run(good, {0}, {.block_tokens = block}).status().code(), StatusCode::kInvalidArgument) << block;
  EXPECT_EQ(Run(good, {0}, {.bytes_per_token = -1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Run(Line(2, "1"), {0}, {.bytes_per_token = INT64_MAX}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ReplayTrace({.trace_path = path_ + ".absent", .budgets_tokens = {0}}).status().code(),
            StatusCode::kNotFound);
}

// Figures of an independent program: an infinite set of beginnings, and a least-recently-used one that drops ends first.
TEST_F(Replay, AgreesWithAnotherProgramOnRealTraces) {
  struct Expected {
    const char* trace;
    int64_t total, unlimited, limited, evictions;  // limited: 4 Mi tokens
  };
  for (const Expected& e : {Expected{"conversation", 144793823, 54098293, 27350877, 226646},
                            Expected{"synthetic", 61194628, 39852448, 23887824, 66682}}) {
    const std::string path =
        HOLDFAST_SOURCE_DIR "/../shared/data/traces/mooncake_" + std::string(e.trace) + ".jsonl";
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << "the Mooncake traces are not in ../shared/data/traces";
    const auto cells = ReplayTrace({.trace_path = path, .budgets_tokens = {0, 4 << 20}});
    ASSERT_TRUE(cells.ok()) << cells.status().message();
    EXPECT_EQ((*cells)[0].total_tokens, e.total);
    EXPECT_EQ((*cells)[0].hit_tokens, e.unlimited);
    EXPECT_EQ((*cells)[1].hit_tokens, e.limited);
    EXPECT_EQ((*cells)[1].evictions, e.evictions);
    EXPECT_EQ((*cells)[1].peak_tokens, 4 << 20);
    for (const ReplayCell& cell : *cells) EXPECT_LT(cell.peak_waste, 0.02) << e.trace;
  }
}

}  // namespace
}  // namespace holdfast
