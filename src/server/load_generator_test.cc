#include "holdfast/load_generator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "server/testing_http_server.h"

namespace holdfast {
namespace {

using Json = nlohmann::json;
using load::TestingHttpServer;
using Wire = TestingHttpServer::Wire;
using Request = TestingHttpServer::Request;

void SleepMs(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

std::string Event(const Json& json) {
  return "data: " + json.dump() + "\n\n";
}

std::string TextEvent(const std::string& text) {
  return Event({{"choices", {{{"index", 0}, {"text", text}, {"finish_reason", nullptr}}}}});
}

std::string UsageEvent(int prompt, int output, int cached) {
  return Event({{"choices", Json::array()},
                {"usage",
                 {{"prompt_tokens", prompt},
                  {"completion_tokens", output},
                  {"prompt_tokens_details", {{"cached_tokens", cached}}}}}});
}

constexpr const char* kDone = "data: [DONE]\n\n";

// Answers what every server does, and completions as the test says.
TestingHttpServer::Handler WithCompletions(TestingHttpServer::Handler completions) {
  return [completions = std::move(completions)](Wire& wire, const Request& request) {
    if (request.target() == "/v1/models") {
      wire.Answer(200, R"({"object":"list","data":[{"id":"toy","object":"model"}]})");
      return true;
    }
    if (request.target() == "/v1/completions") return completions(wire, request);
    wire.Answer(404, R"({"error":{"message":"no such path"}})");
    return true;
  };
}

bool Complete(Wire& wire, const Request&) {
  wire.BeginStream();
  for (int i = 0; i < 3; ++i) wire.Chunk(TextEvent(" w"));
  wire.Chunk(UsageEvent(12, 3, 8));
  wire.Chunk(kDone);
  wire.EndStream();
  return true;
}

LoadOptions Options(const TestingHttpServer& server) {
  LoadOptions options;
  options.url = server.url();
  options.clients = 2;
  options.requests = 6;
  options.prompt_tokens = 20;
  options.timeout_ms = 20'000;
  return options;
}

std::vector<Json> Completions(const TestingHttpServer& server) {
  std::vector<Json> bodies;
  for (const Request& request : server.requests()) {
    if (request.target() == "/v1/completions") bodies.push_back(Json::parse(request.body()));
  }
  return bodies;
}

TEST(LoadGeneratorTest, AddsUpWhatStreamedAnswersSay) {
  TestingHttpServer server(WithCompletions(Complete));
  LoadOptions options = Options(server);
  std::vector<int64_t> done;
  options.progress = [&](int64_t ended, int64_t total) {
    done.push_back(ended);
    EXPECT_EQ(total, 6);
  };
  const auto figures = RunLoad(options);
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_EQ(figures->requests, 6);
  EXPECT_EQ(figures->errors, 0);
  EXPECT_EQ(figures->output_tokens, 18);
  EXPECT_EQ(figures->prompt_tokens, 72);
  EXPECT_EQ(figures->cached_tokens, 48);
  EXPECT_EQ(figures->ttft_ms.count, 6);
  EXPECT_EQ(figures->gap_ms.count, 12);
  EXPECT_EQ(figures->request_ms.count, 6);
  EXPECT_GT(figures->seconds, 0);
  EXPECT_DOUBLE_EQ(figures->output_tokens_per_s, 18 / figures->seconds);
  EXPECT_EQ(done, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_LE(server.connections(), 3) << "one to ask for the model, one a client";
  for (const Json& body : Completions(server)) {
    EXPECT_EQ(body["model"], "toy");
    EXPECT_EQ(body["stream"], true);
    EXPECT_EQ(body["stream_options"]["include_usage"], true);
    EXPECT_EQ(body["max_tokens"], 64);
  }
}

TEST(LoadGeneratorTest, TimesTheFirstTextAndTheGaps) {
  TestingHttpServer server(WithCompletions([](Wire& wire, const Request&) {
    wire.BeginStream();
    wire.Chunk(TextEvent(""));
    SleepMs(60);
    wire.Chunk(TextEvent(" a"));
    SleepMs(50);
    wire.Chunk(TextEvent(" b"));
    wire.Chunk(kDone);
    wire.EndStream();
    return true;
  }));
  const auto figures = RunLoad(Options(server));
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_GE(figures->ttft_ms.p50, 60);
  EXPECT_GE(figures->request_ms.p50, 110);
  EXPECT_GE(figures->gap_ms.max, 10);
  EXPECT_LT(figures->gap_ms.p50, figures->ttft_ms.p50);
}

TEST(LoadGeneratorTest, ReadsEventsThatAreCutAnywhere) {
  TestingHttpServer server(WithCompletions([](Wire& wire, const Request&) {
    wire.BeginStream();
    const std::string bytes = TextEvent(" a") + TextEvent(" b") + UsageEvent(5, 2, 0) + kDone;
    for (const char c : bytes) wire.Chunk(std::string(1, c));
    wire.EndStream();
    return true;
  }));
  const auto figures = RunLoad(Options(server));
  ASSERT_TRUE(figures.ok());
  EXPECT_EQ(figures->errors, 0) << figures->error_messages.front();
  EXPECT_EQ(figures->output_tokens, 12);
}

TEST(LoadGeneratorTest, ReadsAStreamThatEndsWithItsConnection) {
  TestingHttpServer server(WithCompletions([](Wire& wire, const Request&) {
    wire.Send("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    wire.Send(TextEvent(" a") + kDone);
    return false;
  }));
  const auto figures = RunLoad(Options(server));
  ASSERT_TRUE(figures.ok());
  EXPECT_EQ(figures->errors, 0) << figures->error_messages.front();
  EXPECT_EQ(figures->output_tokens, 6);
}

// The one request in two that fails does not touch the other's figures.
void ExpectHalfFails(TestingHttpServer::Handler failing, const std::string& words,
                     int64_t timeout_ms = 20'000) {
  std::atomic<int> count = 0;
  TestingHttpServer server(WithCompletions([&](Wire& wire, const Request& request) {
    return count++ % 2 == 0 ? failing(wire, request) : Complete(wire, request);
  }));
  LoadOptions options = Options(server);
  options.timeout_ms = timeout_ms;
  const auto figures = RunLoad(options);
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_EQ(figures->requests, 6);
  EXPECT_EQ(figures->errors, 3);
  EXPECT_EQ(figures->output_tokens, 9);
  EXPECT_EQ(figures->ttft_ms.count, 3);
  ASSERT_EQ(figures->error_messages.size(), 1u);
  EXPECT_NE(figures->error_messages.front().find(words), std::string::npos)
      << figures->error_messages.front();
}

TEST(LoadGeneratorTest, CountsAFullQueueAsAnErrorWithTheServersMessage) {
  ExpectHalfFails(
      [](Wire& wire, const Request&) {
        wire.Answer(429, R"({"error":{"message":"256 requests wait already"}})");
        return true;
      },
      "status 429: 256 requests wait already");
}

TEST(LoadGeneratorTest, CountsAStreamThatIsCutOff) {
  ExpectHalfFails(
      [](Wire& wire, const Request&) {
        wire.BeginStream();
        wire.Chunk(TextEvent(" a"));
        return false;
      },
      "read: partial message");
}

TEST(LoadGeneratorTest, CountsAConnectionThatClosesBeforeAnAnswer) {
  // Each time, or a connection that was open already would be tried once more.
  TestingHttpServer server(WithCompletions([](Wire&, const Request&) { return false; }));
  const auto figures = RunLoad(Options(server));
  ASSERT_TRUE(figures.ok());
  EXPECT_EQ(figures->errors, 6);
  EXPECT_EQ(figures->error_messages.size(), 1u);
}

TEST(LoadGeneratorTest, CountsAServerThatFallsSilent) {
  ExpectHalfFails(
      [](Wire& wire, const Request&) {
        wire.BeginStream();
        wire.Chunk(TextEvent(" a"));
        SleepMs(1500);
        return false;
      },
      "nothing came for 500 ms", 500);
}

TEST(LoadGeneratorTest, CountsEventsThatAreNoJson) {
  ExpectHalfFails(
      [](Wire& wire, const Request&) {
        wire.BeginStream();
        wire.Chunk("data: {oops\n\n");
        SleepMs(50);
        wire.EndStream();
        return false;
      },
      "no JSON object: {oops");
}

TEST(LoadGeneratorTest, CountsWhatIsNotHttp) {
  ExpectHalfFails(
      [](Wire& wire, const Request&) {
        wire.Send("220 mail.example.org ESMTP\r\n\r\n");
        return false;
      },
      "read: ");
}

TEST(LoadGeneratorTest, OpensAConnectionAnewThatTheServerClosedMeanwhile) {
  TestingHttpServer server(WithCompletions([](Wire& wire, const Request& request) {
    Complete(wire, request);
    return false;  // without having said so
  }));
  const auto figures = RunLoad(Options(server));
  ASSERT_TRUE(figures.ok());
  EXPECT_EQ(figures->errors, 0) << figures->error_messages.front();
  EXPECT_EQ(figures->output_tokens, 18);
}

// Where arrivals waited for answers, this server would wait for arrivals for ever.
TEST(LoadGeneratorTest, AnOpenLoopDoesNotWaitForAnswers) {
  std::mutex mutex;
  std::condition_variable all_there;
  int arrived = 0;
  TestingHttpServer server(WithCompletions([&](Wire& wire, const Request& request) {
    std::unique_lock lock(mutex);
    if (++arrived == 20) all_there.notify_all();
    const bool in_time = all_there.wait_for(lock, std::chrono::seconds(20), [&] { return arrived >= 20; });
    lock.unlock();
    return in_time && Complete(wire, request);
  }));
  LoadOptions options = Options(server);
  options.clients = 1;
  options.requests = 20;
  options.rate_per_s = 500;
  const auto figures = RunLoad(options);
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_EQ(figures->errors, 0);
  EXPECT_EQ(figures->output_tokens, 60);
}

TEST(LoadGeneratorTest, ATraceGivesLengthsArrivalsAndSharedBlocks) {
  const std::string path = testing::TempDir() + "load_trace_" + std::to_string(::getpid()) + ".jsonl";
  std::ofstream(path)
      << R"({"timestamp": 100, "input_length": 520, "output_length": 9, "hash_ids": [1, 2]})"
      << "\n"
      << R"({"timestamp": 500, "input_length": 600, "output_length": 200, "hash_ids": [1, 3]})"
      << "\n"
      << R"({"timestamp": 900, "input_length": 3, "output_length": 0, "hash_ids": [4]})"
      << "\n";
  TestingHttpServer server(WithCompletions(Complete));
  LoadOptions options = Options(server);
  options.trace_path = path;
  options.requests = 0;
  options.trace_speed = 4;
  options.max_prompt_tokens = 550;
  options.max_output_tokens = 100;
  const auto figures = RunLoad(options);
  std::filesystem::remove(path);
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_EQ(figures->requests, 3);
  EXPECT_GE(figures->seconds, 0.2) << "800 ms of the trace";
  const std::vector<Json> bodies = Completions(server);
  ASSERT_EQ(bodies.size(), 3u);
  std::vector<std::string> prompts;
  for (const Json& body : bodies) prompts.push_back(body["prompt"]);
  const auto words = [](const std::string& text) { return 1 + std::count(text.begin(), text.end(), ' '); };
  EXPECT_EQ(words(prompts[0]), 520);
  EXPECT_EQ(words(prompts[1]), 550);
  EXPECT_EQ(words(prompts[2]), 3);
  const auto differ = std::mismatch(prompts[0].begin(), prompts[0].end(), prompts[1].begin()).first;
  EXPECT_GE(words(std::string(prompts[0].begin(), differ)), 512);
  EXPECT_EQ(bodies[0]["max_tokens"], 9);
  EXPECT_EQ(bodies[1]["max_tokens"], 100);
  EXPECT_EQ(bodies[2]["max_tokens"], 1);
}

TEST(LoadGeneratorTest, AsksTheServersTokenizerHowLongAWordIs) {
  TestingHttpServer server([](Wire& wire, const Request& request) {
    if (request.target() != "/tokenize") return WithCompletions(Complete)(wire, request);
    const Json body = Json::parse(request.body());
    if (!body.contains("prompt")) {
      wire.Answer(400, R"({"error":"prompt is missing"})");
      return true;
    }
    const std::string text = body["prompt"];
    const auto words = 1 + std::count(text.begin(), text.end(), ' ');
    wire.Answer(200, Json{{"tokens", std::vector<int>(static_cast<size_t>(1 + 2 * words), 5)}}.dump());
    return true;
  });
  LoadOptions options = Options(server);
  options.prompt_tokens = 100;
  ASSERT_TRUE(RunLoad(options).ok());
  std::set<std::string> prompts;
  for (const Json& body : Completions(server)) {
    const std::string prompt = body["prompt"];
    EXPECT_EQ(1 + std::count(prompt.begin(), prompt.end(), ' '), 50);
    prompts.insert(prompt);
  }
  EXPECT_EQ(prompts.size(), 6u) << "all different";
}

TEST(LoadGeneratorTest, SendsTheKeyAndTheHostAndKeepsToThePathOfTheUrl) {
  TestingHttpServer server([](Wire& wire, const Request& request) {
    if (request.target() != "/base/v1/completions") {
      wire.Answer(404, "{}");
      return true;
    }
    return Complete(wire, request);
  });
  LoadOptions options = Options(server);
  options.url += "/base/v1/";
  options.api_key = "secret";
  options.model = "named";
  ASSERT_TRUE(RunLoad(options).ok());
  int completions = 0;
  for (const Request& request : server.requests()) {
    EXPECT_EQ(request["Authorization"], "Bearer secret");
    EXPECT_EQ("http://" + std::string(request["Host"]), server.url());
    completions += request.target() == "/base/v1/completions" ? 1 : 0;
  }
  EXPECT_EQ(completions, 6);
}

TEST(LoadGeneratorTest, SaysWhenThereIsNoServerOrNoModel) {
  LoadOptions options;
  {
    TestingHttpServer server(WithCompletions(Complete));
    options = Options(server);
  }
  const auto absent = RunLoad(options);
  EXPECT_EQ(absent.status().code(), StatusCode::kIoError);
  EXPECT_NE(absent.status().message().find("connect: "), std::string::npos) << absent.status().message();
  TestingHttpServer server([](Wire& wire, const Request&) {
    wire.Answer(401, R"({"error":{"message":"no key"}})");
    return true;
  });
  const auto refused = RunLoad(Options(server));
  EXPECT_EQ(refused.status().code(), StatusCode::kIoError);
  EXPECT_NE(refused.status().message().find("status 401 and no model, name one: no key"), std::string::npos)
      << refused.status().message();
}

TEST(LoadGeneratorTest, RefusesOptionsByNameBeforeItConnects) {
  const std::pair<const char*, std::function<void(LoadOptions&)>> cases[] = {
      {"clients is 0", [](LoadOptions& o) { o.clients = 0; }},
      {"requests is 0", [](LoadOptions& o) { o.requests = 0; }},
      {"prompt_tokens is 0", [](LoadOptions& o) { o.prompt_tokens = 0; }},
      {"shared_tokens is 501", [](LoadOptions& o) { o.shared_tokens = 501; }},
      {"output_tokens is 0", [](LoadOptions& o) { o.output_tokens = 0; }},
      {"rate_per_s is -1", [](LoadOptions& o) { o.rate_per_s = -1; }},
      {"rate_per_s is null", [](LoadOptions& o) { o.rate_per_s = std::nan(""); }},
      {"trace_speed is 0", [](LoadOptions& o) { o.trace_speed = 0; }},
      {"timeout_ms is 0", [](LoadOptions& o) { o.timeout_ms = 0; }},
      {"api_key", [](LoadOptions& o) { o.api_key = "a\r\nEvil: 1"; }},
      {"TLS", [](LoadOptions& o) { o.url = "https://localhost"; }},
      {"no http://", [](LoadOptions& o) { o.url = "localhost:8080"; }},
      {"no host", [](LoadOptions& o) { o.url = "http://:80"; }},
      {"the port", [](LoadOptions& o) { o.url = "http://localhost:0"; }},
      {"the port", [](LoadOptions& o) { o.url = "http://localhost:65536"; }},
      {"the port", [](LoadOptions& o) { o.url = "http://localhost:8a"; }},
      {"bracket", [](LoadOptions& o) { o.url = "http://[::1:80"; }},
      {"no place", [](LoadOptions& o) { o.url = "http://user@host"; }},
  };
  for (const auto& [words, change] : cases) {
    LoadOptions options;
    options.url = "http://[::1]:1";
    change(options);
    const auto figures = RunLoad(options);
    ASSERT_FALSE(figures.ok()) << words;
    EXPECT_EQ(figures.status().code(), StatusCode::kInvalidArgument) << words;
    EXPECT_NE(figures.status().message().find(words), std::string::npos) << figures.status().message();
  }
  LoadOptions options;
  options.url = "http://[::1]:1";
  options.trace_path = "/no/such/trace";
  EXPECT_EQ(RunLoad(options).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast
