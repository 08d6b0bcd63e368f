#include "server/load_answer.h"

#include <gtest/gtest.h>

#include "server/load_figures.h"

namespace holdfast::load {
namespace {

std::vector<std::string> Events(std::string_view bytes, size_t piece_bytes) {
  SseReader reader;
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
    EXPECT_TRUE(reader.Feed(bytes.substr(at, piece_bytes),
                            [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

TEST(SseReaderTest, FindsTheSameEventsHoweverTheBytesAreCut) {
  const std::string bytes =
      ": hello\n\nevent: x\ndata: one\nid: 3\n\ndata:two\r\ndata:  three\r\n\r\ndata\r\rdatabase: "
      "no\n\ndata: cut off";
  const std::vector<std::string> wanted = {"one", "two\n three", ""};
  for (size_t piece = 1; piece <= bytes.size(); ++piece) EXPECT_EQ(Events(bytes, piece), wanted) << piece;
}

TEST(SseReaderTest, GivesUpOnAnEventThatHasNoEnd) {
  SseReader reader;
  const std::string piece(1 << 20, 'x');
  const auto ignore = [](std::string_view) {};
  int taken = 0;
  while (taken < 100 && reader.Feed(piece, ignore)) ++taken;
  EXPECT_EQ(taken, 4);
}

constexpr std::string_view kText = "data: {\"choices\":[{\"index\":0,\"text\":\" a\"}]}\n\n";
constexpr std::string_view kNoText = "data: {\"choices\":[{\"index\":0,\"text\":\"\"}],\"usage\":null}\n\n";
constexpr std::string_view kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,"
    "\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

TEST(AnswerReaderTest, TimesTextAndTakesCountsFromUsage) {
  AnswerReader reader;
  EXPECT_TRUE(reader.Feed(kNoText, 1'000'000));
  EXPECT_TRUE(reader.Feed(kText, 2'000'000));
  EXPECT_TRUE(reader.Feed(kNoText, 3'000'000));
  EXPECT_TRUE(reader.Feed(kText, 4'500'000));
  EXPECT_TRUE(reader.Feed(kUsage, 5'000'000));
  EXPECT_TRUE(reader.Feed(kDone, 5'000'000));
  const auto figures = reader.Finish();
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_EQ(figures->first_text_ns, 2'000'000);
  EXPECT_EQ(figures->gaps_ms, (std::vector<float>{2.5f}));
  EXPECT_EQ(figures->output_tokens, 5);
  EXPECT_EQ(figures->prompt_tokens, 7);
  EXPECT_EQ(figures->cached_tokens, 3);
}

TEST(AnswerReaderTest, CountsPiecesOfTextWhereTheServerSendsNoUsage) {
  AnswerReader reader;
  for (const std::string_view event : {kText, kText, kText, kDone}) EXPECT_TRUE(reader.Feed(event, 1));
  EXPECT_EQ(reader.Finish()->output_tokens, 3);
}

TEST(AnswerReaderTest, SaysWhatIsWrongWithAStream) {
  const auto failure = [](std::string_view bytes) {
    AnswerReader reader;
    (void)reader.Feed(bytes, 1);
    const auto figures = reader.Finish();
    return figures.ok() ? std::string() : figures.status().message();
  };
  EXPECT_NE(failure(kText).find("without [DONE], after 1 pieces"), std::string::npos);
  EXPECT_NE(failure("").find("after 0 pieces"), std::string::npos);
  EXPECT_NE(failure(kDone).find("neither text nor usage"), std::string::npos);
  EXPECT_NE(failure("data: {\"choices\":\n\n").find("no JSON object: {"), std::string::npos);
  EXPECT_NE(failure("data: 3\n\n").find("no JSON object: 3"), std::string::npos);
  EXPECT_NE(failure("data: {\"error\":{\"message\":\"no room\"}}\n\n").find("no room"), std::string::npos);
  EXPECT_NE(failure("data: {\"error\":\"no room\"}\n\n").find("no room"), std::string::npos);
}

TEST(AnswerReaderTest, TakesNothingAmissThatIsOnlyOfAnotherShape) {
  AnswerReader reader;
  for (const char* event :
       {R"({"choices":{}})", R"({"choices":[3]})", R"({"choices":[{"text":null}]})", R"({})",
        R"({"choices":[{"text":"x"}],"usage":{"completion_tokens":18446744073709551615}})"}) {
    EXPECT_TRUE(reader.Feed("data: " + std::string(event) + "\n\n", 1)) << event;
  }
  EXPECT_TRUE(reader.Feed(kDone, 1));
  EXPECT_EQ(reader.Finish()->output_tokens, 0);
}

TEST(ErrorTextTest, IsTheServersOwnMessage) {
  EXPECT_EQ(ErrorText(R"({"error":{"message":"queue is full","type":"x"}})"), "queue is full");
  EXPECT_EQ(ErrorText(R"({"detail":"not found"})"), "not found");
  EXPECT_EQ(ErrorText("<html>\nbad"), "<html> bad");
  EXPECT_EQ(ErrorText(std::string(1000, 'x')).size(), 200u);
}

TEST(LatencyTest, PercentilesAreNearestRanks) {
  std::vector<float> values;
  for (int i = 200; i >= 1; --i) values.push_back(static_cast<float>(i));
  const LatencyFigures figures = LatencyOf(values);
  EXPECT_EQ(figures.count, 200);
  EXPECT_EQ(figures.p50, 100);
  EXPECT_EQ(figures.p99, 198);
  EXPECT_EQ(figures.max, 200);
  std::vector<float> one = {3.0f}, none;
  EXPECT_EQ(LatencyOf(one).p50, 3);
  EXPECT_EQ(LatencyOf(one).p99, 3);
  EXPECT_EQ(LatencyOf(none).count, 0);
}

TEST(LoadCollectorTest, KeepsErrorsOutOfTheFigures) {
  LoadCollector collector;
  collector.Add({.first_text_ns = 3'000'000,
                 .gaps_ms = {1, 2},
                 .output_tokens = 10,
                 .prompt_tokens = 4,
                 .cached_tokens = 2},
                1'000'000, 2'000'000'000);
  for (int i = 0; i < 30; ++i) collector.AddError("status " + std::to_string(i % 20), 1);
  const LoadFigures figures = collector.Figures();
  EXPECT_EQ(figures.requests, 31);
  EXPECT_EQ(figures.errors, 30);
  EXPECT_EQ(figures.error_messages.size(), 8u);
  EXPECT_EQ(figures.ttft_ms.count, 1);
  EXPECT_EQ(figures.ttft_ms.p50, 2);
  EXPECT_EQ(figures.gap_ms.max, 2);
  EXPECT_EQ(figures.request_ms.p50, 1999);
  EXPECT_DOUBLE_EQ(figures.seconds, 2.0);
  EXPECT_DOUBLE_EQ(figures.output_tokens_per_s, 5.0);
}

}  // namespace
}  // namespace holdfast::load
