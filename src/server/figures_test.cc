#include "server/figures.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "server/testing_engine.h"

namespace holdfast::server {
namespace {

TEST(Figures, TheCachesJsonHasTheKeysThatScriptsRelyOn) {
  const FakeServing serving;
  const OrderedJson json = CacheJson(serving.pool());
  EXPECT_EQ(json["budget_bytes"], 1000);
  EXPECT_EQ(json["allocated_bytes"], 700);
  EXPECT_EQ(json["blocks"], OrderedJson::parse(R"({"total":10,"free":3,"live":5,"idle":2})"));
  EXPECT_EQ(
      json["sequences"],
      OrderedJson::parse(
          R"([{"id":7,"state":"decode","tokens":33,"blocks":3},{"id":8,"state":"queued","tokens":0,"blocks":0}])"));
  EXPECT_EQ(json["hits"], 4);
  EXPECT_EQ(json["misses"]["evicted"], 2);
  EXPECT_EQ(json["misses"].size(), static_cast<size_t>(kMissCauses - 1));
  EXPECT_FALSE(json["misses"].contains("none"));
}

// Every sample of the exposition by its name and labels; checks what the format asks for on the way.
std::map<std::string, double> Samples(const std::string& text) {
  std::map<std::string, double> samples;
  std::set<std::string> described;
  std::string metric;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      metric = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(described.insert(metric).second) << metric << " is there twice";
      continue;
    }
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(line.starts_with(metric)) << line << " under " << metric;
    EXPECT_TRUE(line.starts_with("holdfast_"));
    EXPECT_TRUE(samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second) << line;
  }
  return samples;
}

TEST(Figures, MetricsAreValidPrometheusText) {
  const FakeServing serving;
  HttpFigures http;
  http.responses = {{200, 5}, {429, 1}};
  const std::string text = MetricsText(serving.metrics(), serving.pool(), http);
  ASSERT_EQ(text.back(), '\n');
  auto samples = Samples(text);
  EXPECT_EQ(samples["holdfast_generated_tokens_total"], 12);
  EXPECT_EQ(samples["holdfast_requests_finished_total{reason=\"length\"}"], 3);
  EXPECT_EQ(samples["holdfast_cache_blocks{state=\"free\"}"], 3);
  EXPECT_EQ(samples["holdfast_cache_blocks{state=\"live\"}"], 5);
  EXPECT_EQ(samples["holdfast_cache_blocks{state=\"idle\"}"], 2);
  EXPECT_EQ(samples["holdfast_sequences{state=\"decode\"}"], 1);
  EXPECT_EQ(samples["holdfast_prefix_misses_total{cause=\"evicted\"}"], 2);
  EXPECT_EQ(samples["holdfast_http_responses_total{code=\"429\"}"], 1);
  EXPECT_EQ(samples["holdfast_cache_budget_bytes"], 1000);
}

TEST(Figures, HistogramsAreCumulativeAndEndAtInfinity) {
  const FakeServing serving;
  auto samples = Samples(MetricsText(serving.metrics(), serving.pool(), {}));
  EXPECT_EQ(samples["holdfast_step_tokens_bucket{le=\"1\"}"], 2);
  EXPECT_EQ(samples["holdfast_step_tokens_bucket{le=\"8\"}"], 2);
  EXPECT_EQ(samples["holdfast_step_tokens_bucket{le=\"+Inf\"}"], 3);
  EXPECT_EQ(samples["holdfast_step_tokens_sum"], 514);
  EXPECT_EQ(samples["holdfast_step_tokens_count"], 3);
  EXPECT_EQ(samples["holdfast_time_to_first_token_seconds_bucket{le=\"0.1\"}"], 1);
  EXPECT_EQ(samples["holdfast_time_to_first_token_seconds_bucket{le=\"1\"}"], 2);
}

}  // namespace
}  // namespace holdfast::server
