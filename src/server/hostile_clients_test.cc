// Clients that leave, do not read, do not finish, or send too much: nothing is lost, nothing grows.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "server/testing_client.h"
#include "server/testing_engine.h"

namespace holdfast::server {
namespace {

using Clients = std::vector<std::unique_ptr<TestClient>>;

void Sleep(int64_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// The value of a sample without labels.
double Metric(TestServer& server, const std::string& name) {
  TestClient client(server.port());
  const auto response = client.Get("/metrics");
  if (!response.has_value()) {
    ADD_FAILURE() << "no answer to /metrics";
    return std::numeric_limits<double>::quiet_NaN();
  }
  const std::string text = "\n" + response->body;
  const size_t at = text.find("\n" + name + " ");
  if (at == std::string::npos) {
    ADD_FAILURE() << name << " is not among the metrics";
    return std::numeric_limits<double>::quiet_NaN();
  }
  return std::stod(text.substr(at + name.size() + 2));
}

TEST(HostileClients, AThousandThatLeaveAtRandomPointsLeaveNothingBehind) {
  // Tokens come some times faster than from a model, not so fast that writing them is all that a sanitized server does.
  FakeServing serving({.step_us = 500});
  TestServer server(serving);
  std::mt19937 random(1);
  const std::string requests[] = {
      PostText("/v1/completions", R"({"prompt":"abc","max_tokens":100000})"),
      PostText("/v1/completions", R"({"prompt":"abc","max_tokens":100000,"stream":true})"),
      PostText("/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"a"}],"stream":true,"n":4,"max_tokens":100000})"),
  };
  for (int i = 0; i < 1000; ++i) {
    TestClient client(server.port());
    const std::string& request = requests[random() % 3];
    const bool whole = random() % 4 != 0, begins = random() % 2 == 0;
    const int before = serving.submitted();
    ASSERT_TRUE(client.Send(request.substr(0, whole ? request.size() : random() % request.size())));
    while (whole && begins && serving.submitted() == before) std::this_thread::yield();
    if (whole && random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
    char some[300];
    if (whole && random() % 3 == 0) ::recv(client.fd(), some, sizeof some, MSG_DONTWAIT);
    client.Close(random() % 2 == 0);
  }
  EXPECT_TRUE(serving.WaitForNone(5000)) << serving.live() << " requests are left";
  EXPECT_GT(serving.submitted(), 300);
  for (int i = 0; i < 100 && Metric(server, "holdfast_http_connections") > 1; ++i) Sleep(20);
  EXPECT_EQ(Metric(server, "holdfast_http_connections"), 1) << "the one that asks";
  EXPECT_EQ(Metric(server, "holdfast_http_body_bytes"), 0);
}

TEST(HostileClients, OneThatLeavesIsNoticedBeforeTheFirstToken) {
  FakeServing serving({.paused = true});
  TestServer server(serving);
  for (const char* body : {R"({"prompt":"a"})", R"({"prompt":"a","stream":true})"}) {
    TestClient client(server.port());
    ASSERT_TRUE(client.Send(PostText("/v1/completions", body)));
    while (serving.live() == 0) Sleep(1);
    client.Close();
    EXPECT_TRUE(serving.WaitForNone(2000)) << body;
  }
}

TEST(HostileClients, AHundredThatDoNotReadAreDroppedAndHoldUpNobody) {
  FakeServing serving({.step_us = 200});
  ServerOptions options;
  options.write_timeout_ms = 700;
  TestServer server(serving, options);
  Clients deaf;
  for (int i = 0; i < 100; ++i) {
    deaf.push_back(std::make_unique<TestClient>(server.port(), 4096));
    ASSERT_TRUE(deaf.back()->Send(
        PostText("/v1/completions", R"({"prompt":"abc","max_tokens":1000000,"stream":true})")));
  }
  while (serving.submitted() < 100) Sleep(1);
  TestClient reader(server.port());
  const auto response = reader.Post("/v1/completions", R"({"prompt":"abc","max_tokens":50})");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
  EXPECT_TRUE(serving.WaitForNone(30'000)) << serving.live() << " are left";
  EXPECT_GE(Metric(server, "holdfast_http_clients_left_total"), 100);
}

TEST(HostileClients, AHeadThatDoesNotEndIs408) {
  FakeServing serving;
  ServerOptions options;
  options.read_timeout_ms = 150;
  TestServer server(serving, options);
  TestClient slow(server.port());
  std::atomic<bool> answered{false};
  std::atomic<size_t> sent{0};
  const std::string text = "GET /health HTTP/1.1\r\nA: " + std::string(100'000, 'a');
  std::thread dripping([&] {
    for (; sent < text.size() && !answered && slow.Send(text.substr(sent, 1)); ++sent) Sleep(2);
  });
  const auto response = slow.ReadResponse();
  answered = true;
  dripping.join();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 408);
  EXPECT_LT(sent, 10'000u) << "each byte did not buy more time";
}

TEST(HostileClients, ABodyThatDoesNotEndIs408) {
  FakeServing serving;
  ServerOptions options;
  options.read_timeout_ms = 150;
  TestServer server(serving, options);
  TestClient slow(server.port());
  ASSERT_TRUE(
      slow.Send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{\"prompt\""));
  EXPECT_EQ(slow.ReadResponse()->status, 408);
  EXPECT_TRUE(slow.IsClosed());
}

TEST(HostileClients, AnIdleConnectionIsClosedWithoutAWord) {
  FakeServing serving;
  ServerOptions options;
  options.idle_timeout_ms = 50;
  TestServer server(serving, options);
  TestClient fresh(server.port()), used(server.port());
  EXPECT_EQ(used.Get("/health")->status, 200);
  EXPECT_TRUE(fresh.IsClosed());
  EXPECT_TRUE(used.IsClosed());
}

TEST(HostileClients, ATooLargeBodyIs413WhetherItsLengthIsSaidOrNot) {
  FakeServing serving;
  ServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(serving, options);
  TestClient said(server.port());
  const auto refused = said.Post("/v1/completions", std::string(100'000, ' '));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 413);
  EXPECT_NE(refused->json()["error"]["message"].get<std::string>().find("1000"), std::string::npos);
  TestClient chunked(server.port());
  ASSERT_TRUE(chunked.Send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
  ASSERT_TRUE(chunked.Send("7d0\r\n" + std::string(2000, ' ') + "\r\n0\r\n\r\n"));
  EXPECT_EQ(chunked.ReadResponse()->status, 413);
  TestClient fits(server.port());
  EXPECT_EQ(fits.Post("/v1/completions", R"({"prompt":"a"})" + std::string(986, ' '))->status, 200);
}

TEST(HostileClients, ATooLargeHeadIs431) {
  FakeServing serving;
  ServerOptions options;
  options.max_header_bytes = 1000;
  TestServer server(serving, options);
  TestClient client(server.port());
  const auto response = client.Get("/health", "A: " + std::string(50'000, 'a') + "\r\n");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 431);
  TestClient line(server.port());
  ASSERT_TRUE(line.Send("GET /" + std::string(100'000, 'a')));
  EXPECT_EQ(line.ReadResponse()->status, 431);
}

TEST(HostileClients, WhatIsNoHttpIs400OrClosed) {
  FakeServing serving;
  TestServer server(serving);
  for (const char* text :
       {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /health HTTP/1.1\r\nA b: c\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\x16\x03\x01\x02"}) {
    TestClient client(server.port());
    ASSERT_TRUE(client.Send(text));
    ::shutdown(client.fd(), SHUT_WR);
    const auto response = client.ReadResponse();
    if (response.has_value()) {
      EXPECT_GE(response->status, 400) << text;
      EXPECT_LT(response->status, 500) << text;
    }
    EXPECT_TRUE(client.IsClosed()) << text;
  }
  TestClient fine(server.port());
  EXPECT_EQ(fine.Get("/health")->status, 200);
}

TEST(HostileClients, BodiesOfAllTogetherAreBounded) {
  FakeServing serving;
  ServerOptions options;
  options.max_body_bytes = 100'000;
  TestServer server(serving, options);
  Clients clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    ASSERT_TRUE(
        clients.back()->Send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" +
                             std::string(99'000, ' ')));
    // As many as there is room for are read before the next comes.
    const double expected = std::min(i + 1, 8) * 99'000.0;
    for (int n = 0; n < 1000 && Metric(server, "holdfast_http_body_bytes") < expected; ++n) Sleep(5);
  }
  EXPECT_EQ(clients.back()->ReadResponse()->status, 429);
  EXPECT_LE(Metric(server, "holdfast_http_body_bytes"), 800'000);
  ASSERT_TRUE(clients.front()->Send(R"({"prompt":"a"})" + std::string(986, ' ')));
  EXPECT_EQ(clients.front()->ReadResponse()->status, 200) << "those who came first are served";
}

TEST(HostileClients, MoreConnectionsThanAllowedWaitTheirTurn) {
  FakeServing serving({.paused = true});
  ServerOptions options;
  options.max_connections = 4;
  TestServer server(serving, options);
  Clients clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    ASSERT_TRUE(clients.back()->Send(
        PostText("/v1/completions", R"({"prompt":"ab","max_tokens":2})", "Connection: close\r\n")));
  }
  while (serving.live() < 4) Sleep(1);
  Sleep(100);
  EXPECT_EQ(serving.live(), 4);
  EXPECT_EQ(serving.submitted(), 4);
  serving.Resume();
  for (const auto& client : clients) {
    const auto response = client->ReadResponse();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 200);
    client->Close();
  }
  EXPECT_EQ(serving.submitted(), 40);
}

TEST(HostileClients, IdleConnectionsGiveWayToThoseThatWait) {
  FakeServing serving;
  ServerOptions options;
  options.max_connections = 3;
  TestServer server(serving, options);
  Clients idle;
  for (int i = 0; i < 3; ++i) {
    idle.push_back(std::make_unique<TestClient>(server.port()));
    EXPECT_EQ(idle.back()->Get("/health")->status, 200);
  }
  TestClient waiting(server.port());
  EXPECT_EQ(waiting.Get("/health")->status, 200);
}

TEST(HostileClients, OneThatPipelinesWithoutEndIsBounded) {
  FakeServing serving({.step_us = 1000});
  TestServer server(serving);
  TestClient client(server.port());
  ASSERT_TRUE(client.Send(PostText("/v1/completions", R"({"prompt":"ab","max_tokens":300})")));
  const int small = 64 << 10;
  ::setsockopt(client.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  const timeval short_wait{0, 100'000};
  ::setsockopt(client.fd(), SOL_SOCKET, SO_SNDTIMEO, &short_wait, sizeof short_wait);
  int64_t sent = 0;
  const std::string flood = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  while (sent < (64 << 20) && client.Send(flood)) sent += static_cast<int64_t>(flood.size());
  EXPECT_LT(sent, 32 << 20) << "what is not read stays with the client";
  EXPECT_EQ(client.ReadResponse()->json()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(client.ReadResponse()->status, 200) << "and is answered after it";
}

}  // namespace
}  // namespace holdfast::server
