#include "holdfast/request_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace holdfast {
namespace {

class RequestTraceTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "request_trace_" + std::to_string(::getpid()) + ".jsonl";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<std::vector<TraceRequest>> Read(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadRequestTrace(path_);
  }

  std::string path_;
};

TEST_F(RequestTraceTest, GivesRequestsInTheOrderOfTheFile) {
  const auto trace =
      Read(R"({"timestamp": 0, "input_length": 513, "output_length": 3, "hash_ids": [7, 9]})"
           "\n\r\n"
           R"({"timestamp": 27, "input_length": 512, "output_length": 0, "hash_ids": [7], "more": {}})");
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ((*trace)[0].timestamp_ms, 0);
  EXPECT_EQ((*trace)[0].input_tokens, 513);
  EXPECT_EQ((*trace)[0].output_tokens, 3);
  EXPECT_EQ((*trace)[0].hash_ids, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ((*trace)[1].timestamp_ms, 27);
  EXPECT_EQ((*trace)[1].hash_ids, (std::vector<int64_t>{7}));
}

TEST_F(RequestTraceTest, NamesLineAndFieldOfWhatIsNoRequest) {
  const std::string good = R"({"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": [0]})"
                           "\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{", "line 2"},
      {"[1]", "must be an object"},
      {R"({"input_length": 1, "output_length": 1, "hash_ids": [0]})", "timestamp is missing"},
      {R"({"timestamp": 5.5, "input_length": 1, "output_length": 1, "hash_ids": [0]})",
       "timestamp has type number"},
      {R"({"timestamp": 4, "input_length": 1, "output_length": 1, "hash_ids": [0]})",
       "the line before has 5"},
      {R"({"timestamp": 5, "input_length": 0, "output_length": 1, "hash_ids": []})", "input_length is 0"},
      {R"({"timestamp": 5, "input_length": 18446744073709551615, "output_length": 1, "hash_ids": []})",
       "input_length is 18446744073709551615"},
      {R"({"timestamp": 5, "input_length": 1, "output_length": -1, "hash_ids": [0]})", "output_length is -1"},
      {R"({"timestamp": 5, "input_length": 1, "output_length": "1", "hash_ids": [0]})",
       "output_length has type string"},
      {R"({"timestamp": 5, "input_length": 1, "output_length": 1})", "hash_ids is missing"},
      {R"({"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": 0})",
       "hash_ids has type integer"},
      {R"({"timestamp": 5, "input_length": 513, "output_length": 1, "hash_ids": [0]})", "takes 2 blocks"},
      {R"({"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": [-3]})", "hash_ids is -3"},
  };
  for (const auto& [line, words] : cases) {
    const auto trace = Read(good + line);
    ASSERT_FALSE(trace.ok()) << line;
    EXPECT_EQ(trace.status().code(), StatusCode::kInvalidArgument) << line;
    EXPECT_NE(trace.status().message().find("line 2"), std::string::npos) << trace.status().message();
    EXPECT_NE(trace.status().message().find(words), std::string::npos) << trace.status().message();
  }
}

TEST_F(RequestTraceTest, RefusesAFileThatIsNotThereOrHasNoRequest) {
  EXPECT_EQ(ReadRequestTrace(path_ + ".absent").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Read("\n").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
