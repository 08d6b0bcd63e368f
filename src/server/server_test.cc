#include "holdfast/server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/testing_client.h"
#include "server/testing_engine.h"

namespace holdfast::server {
namespace {

constexpr const char* kAsk = R"({"prompt":"ab","max_tokens":5})";
constexpr const char* kStream = R"({"prompt":"ab","max_tokens":5,"stream":true})";

ServerOptions WithKeys(std::vector<std::string> keys) {
  ServerOptions options;
  options.api_keys = std::move(keys);
  return options;
}

TEST(Server, AnswersEveryEndpointOnOneConnection) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  EXPECT_EQ(client.Get("/health")->body, R"({"status":"ok"})");
  EXPECT_EQ(client.Get("/v1/models")->json()["data"][0]["id"], "fake");
  EXPECT_EQ(client.Get("/v1/models/fake")->json()["max_model_len"], 1 << 15) << "what is served of 1 << 16";
  EXPECT_EQ(client.Get("/v1/models/other")->status, 404);
  EXPECT_EQ(client.Post("/v1/completions", kAsk)->json()["choices"][0]["text"], "ababa");
  EXPECT_EQ(client.Post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"!"}]})")
                ->json()["choices"][0]["message"]["content"],
            "user:");
  EXPECT_EQ(client.Post("/tokenize", R"({"content":"ab"})")->json()["tokens"], Json::parse("[97,98]"));
  EXPECT_EQ(client.Post("/tokenize", R"({"content":"ab"})")->json()["max_model_len"], 1 << 15);
  EXPECT_EQ(client.Post("/tokenize", R"({"prompt":"ab"})")->json()["tokens"], Json::parse("[257,97,98]"));
  EXPECT_EQ(client.Post("/tokenize", R"({"content":"é","with_pieces":true})")->json()["tokens"][0],
            Json::parse(R"({"id":195,"piece":[195]})"));
  EXPECT_EQ(client.Post("/detokenize", R"({"tokens":[97,98]})")->json()["content"], "ab");
  EXPECT_EQ(client.Post("/detokenize", R"({"tokens":[300]})")->status, 400);
  EXPECT_EQ(client.Get("/v1/cache")->json()["budget_bytes"], 1000);
  const auto metrics = client.Get("/metrics");
  EXPECT_EQ(metrics->headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics->body.find("holdfast_http_connections 1\n"), std::string::npos);
  EXPECT_NE(metrics->body.find("holdfast_http_responses_total{code=\"404\"} 1\n"), std::string::npos);
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  const auto wrong = client.Get("/v1/completions");
  EXPECT_EQ(wrong->status, 405);
  EXPECT_EQ(wrong->headers.at("allow"), "POST");
}

TEST(Server, ThePageNeedsNothingFromElsewhere) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  const auto page = client.Get("/");
  EXPECT_EQ(page->headers.at("content-type"), "text/html; charset=utf-8");
  const std::string& policy = page->headers.at("content-security-policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(policy.find("script-src 'sha256-"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(page->body.find("http://"), page->body.find("http://www.w3.org/2000/svg"))
      << "but for a namespace's name";
  EXPECT_EQ(page->body.find("https://"), std::string::npos);
  EXPECT_EQ(page->body.find("style=\""), std::string::npos) << "the policy forbids them";
}

TEST(Server, AHeadRequestGetsTheHeadAlone) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  ASSERT_TRUE(client.Send("HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n"));
  const auto head = client.ReadResponse(true);
  EXPECT_EQ(head->headers.at("content-length"), "15");
  EXPECT_EQ(client.Get("/health")->status, 200);
}

TEST(Server, StreamsEventsAsTheyCome) {
  FakeServing serving({.step_us = 2000});
  TestServer server(serving);
  TestClient client(server.port());
  const auto response = client.Post("/v1/completions", kStream);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(response->body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(client.Get("/health")->status, 200) << "the connection goes on";
}

TEST(Server, AnOldClientGetsAStreamThatEndsWithTheConnection) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  const std::string body = kStream;
  ASSERT_TRUE(client.Send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
                          "\r\n\r\n" + body));
  const auto response = client.ReadResponse();
  EXPECT_FALSE(response->headers.contains("transfer-encoding"));
  EXPECT_TRUE(response->body.ends_with("data: [DONE]\n\n"));
}

TEST(Server, FailuresBeforeTheFirstEventAreHttpErrors) {
  FakeServing failing({.fail_after = 0});
  TestServer server(failing);
  TestClient client(server.port());
  EXPECT_EQ(client.Post("/v1/completions", kStream)->status, 500);
  const auto plain = client.Post("/v1/completions", kAsk);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->status, 500);
  EXPECT_EQ(plain->json()["error"]["message"], "fake: it failed");
}

TEST(Server, AnAnswersIdSaysNothingOfOthers) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  const std::string first = client.Post("/v1/completions", kAsk)->json()["id"];
  const std::string second = client.Post("/v1/completions", kAsk)->json()["id"];
  ASSERT_EQ(first.size(), 5u + 24u) << first;
  EXPECT_NE(first.substr(0, 13), second.substr(0, 13)) << "no part is a counter or the server's";
  EXPECT_NE(first.substr(21), second.substr(21));
}

TEST(Server, AFullQueueIs429AndSaysWhenToTryAgain) {
  FakeServing full({.max_live = 0});
  TestServer server(full);
  TestClient client(server.port());
  const auto response = client.Post("/v1/completions", kAsk);
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(response->headers.at("retry-after"), "1");
  EXPECT_EQ(response->json()["error"]["code"], "queue_full");
  EXPECT_EQ(response->json()["error"]["param"], nullptr);
}

TEST(Server, BadBodiesAre400WithOpenAisErrorObject) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  for (const std::string& body :
       {std::string("{"), std::string(), std::string("[]"), std::string("{\"prompt\":\"\xff\"}"),
        std::string(kAsk) + std::string(1, '\0') + "x", std::string(100, '['), std::string(R"({"prompt":7})"),
        std::string(20'000, '[')}) {
    const auto response = client.Post("/v1/completions", body);
    ASSERT_TRUE(response.has_value()) << body;
    EXPECT_EQ(response->status, 400) << body;
    EXPECT_EQ(response->json()["error"]["type"], "invalid_request_error");
    EXPECT_TRUE(response->json()["error"].contains("param") && response->json()["error"].contains("code"));
  }
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"a","n":99})")->json()["error"]["param"], "n");
  EXPECT_EQ(serving.submitted(), 0);
}

TEST(Server, LargePromptsAreTokenisedOffTheIoThread) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  const auto response =
      client.Post("/v1/completions", "{\"prompt\":\"" + std::string(60'000, 'a') + R"(","max_tokens":2})");
  EXPECT_EQ(response->json()["usage"]["prompt_tokens"], 60'001);
}

TEST(Server, KeysAreTenantsAndTheFirstIsTheOperators) {
  FakeServing serving;
  TestServer server(serving, WithKeys({"first", "second"}));
  TestClient client(server.port());
  EXPECT_EQ(client.Get("/health")->status, 200);
  EXPECT_EQ(client.Get("/v1/models")->status, 401);
  EXPECT_EQ(client.Get("/v1/models", "Authorization: Bearer wrong\r\n")->json()["error"]["code"],
            "invalid_api_key");
  EXPECT_EQ(client.Get("/v1/models", "Authorization: Bearer second\r\n")->status, 200);
  for (const char* path : {"/", "/metrics", "/v1/cache"}) {
    EXPECT_EQ(client.Get(path)->headers.at("www-authenticate"), "Basic realm=\"holdfast\"");
    EXPECT_EQ(client.Get(path, "Authorization: Bearer second\r\n")->status, 403) << path;
    EXPECT_EQ(client.Get(path, "Authorization: Bearer first\r\n")->status, 200) << path;
    EXPECT_EQ(client.Get(path, "Authorization: Basic dTpmaXJzdA==\r\n")->status, 200) << path;
  }
  EXPECT_EQ(client.Post("/v1/completions", kAsk, "Authorization: Bearer first\r\n")->status, 200);
  const std::string name = serving.last().name_space;
  EXPECT_EQ(client.Post("/v1/completions", kAsk, "Authorization: Bearer second\r\n")->status, 200);
  EXPECT_NE(serving.last().name_space, name);
  EXPECT_FALSE(name.empty());
}

TEST(Server, WithoutAKeyABodyIsNotEvenRead) {
  FakeServing serving;
  TestServer server(serving, WithKeys({"key"}));
  TestClient client(server.port());
  ASSERT_TRUE(client.Send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{"));
  EXPECT_EQ(client.ReadResponse()->status, 401);
  EXPECT_TRUE(client.IsClosed());
}

TEST(Server, AnotherSitesPageMayNotUseAServerWithoutKeys) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  EXPECT_EQ(client.Get("/v1/cache", "Origin: http://evil.example\r\n")->status, 403);
  EXPECT_EQ(client.Get("/v1/cache", "Origin: http://test\r\n")->status, 200);
}

// A browser sends a password that it was given along with whatever a page of another site makes it ask.
TEST(Server, AnotherSitesPageMayNotUseAPasswordThatTheBrowserKeeps) {
  FakeServing serving;
  TestServer server(serving, WithKeys({"first"}));
  const auto ask = [&](const std::string& key, const std::string& origin) {
    TestClient client(server.port());
    return client.Post("/v1/completions", kAsk, "Authorization: " + key + "\r\nOrigin: " + origin + "\r\n")
        ->status;
  };
  EXPECT_EQ(ask("Basic dTpmaXJzdA==", "http://evil.example"), 403);
  EXPECT_EQ(ask("basic dTpmaXJzdA==", "null"), 403);
  EXPECT_EQ(serving.submitted(), 0);
  EXPECT_EQ(ask("Basic dTpmaXJzdA==", "http://test"), 200);
  EXPECT_EQ(ask("Bearer first", "http://evil.example"), 200);
}

TEST(Server, ATargetsAuthorityStandsInHostsPlace) {
  FakeServing serving;
  TestServer server(serving);
  const auto ask = [&](const std::string& target, const std::string& headers) {
    TestClient client(server.port());
    EXPECT_TRUE(client.Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n"));
    return client.ReadResponse()->status;
  };
  EXPECT_EQ(ask("http://localhost:1/v1/models", ""), 200);
  EXPECT_EQ(ask("http://evil.example/v1/models", ""), 403);
  EXPECT_EQ(ask("http://a:1/v1/models", "Origin: http://a:1\r\n"), 200);
  EXPECT_EQ(ask("http://a:1/v1/models", "Origin: http://localhost\r\n"), 403);
}

TEST(Server, ANameOfAnotherSiteThatPointsHereMayNotUseAServerWithoutKeys) {
  FakeServing serving;
  TestServer server(serving);
  TestServer with_key(serving, WithKeys({"key"}));
  const auto ask = [](int port, const std::string& headers) {
    TestClient client(port);
    EXPECT_TRUE(client.Send("GET /v1/models HTTP/1.1\r\nAuthorization: Bearer key\r\n" + headers + "\r\n"));
    return client.ReadResponse()->status;
  };
  EXPECT_EQ(ask(server.port(), "Host: evil.example:8080\r\nOrigin: http://evil.example:8080\r\n"), 403);
  EXPECT_EQ(ask(server.port(), "Host: evil.example\r\n"), 403);
  EXPECT_EQ(ask(server.port(), "Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:8080\r\n"), 200);
  EXPECT_EQ(ask(with_key.port(), "Host: models.example\r\n"), 200);
}

TEST(Server, AHeadThatMayMeanTwoThingsIsRefused) {
  FakeServing serving;
  TestServer server(serving);
  const auto ask = [&](const std::string& head, const std::string& body) {
    TestClient client(server.port());
    EXPECT_TRUE(client.Send("POST /v1/completions " + head + "\r\n\r\n" + body));
    return client.ReadResponse()->status;
  };
  const std::string length = "\r\nContent-Length: " + std::to_string(std::string(kAsk).size());
  EXPECT_EQ(ask("HTTP/1.1\r\nHost: a" + length, kAsk), 200);
  EXPECT_EQ(ask("HTTP/1.1\r\nHost: a\r\nHost: b" + length, kAsk), 400);
  EXPECT_EQ(ask("HTTP/1.1" + length, kAsk), 400);
  EXPECT_EQ(ask("HTTP/1.0" + length, kAsk), 200);
  EXPECT_EQ(ask("HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip" + length, kAsk), 415);
  EXPECT_EQ(ask("HTTP/1.1\r\nHost: a\r\nContent-Encoding: Identity" + length, kAsk), 200);
  EXPECT_EQ(ask("HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity\r\nContent-Encoding: gzip" + length, kAsk),
            415);
  EXPECT_EQ(ask("HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked", "0\r\n\r\n"), 501);
}

TEST(Server, WhatFollowsAHeadWhoseEndIsNotKnownIsNoRequest) {
  FakeServing serving;
  TestServer server(serving);
  for (const char* coding :
       {"Transfer-Encoding: gzip", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding:\r\nTransfer-Encoding: gzip",
        "Transfer-Encoding:\r\nTransfer-Encoding: chunked"}) {
    TestClient client(server.port());
    ASSERT_TRUE(client.Send("POST /tokenize HTTP/1.1\r\nHost: a\r\n" + std::string(coding) +
                            "\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n"));
    const auto refused = client.ReadResponse();
    ASSERT_TRUE(refused.has_value()) << coding;
    EXPECT_GE(refused->status, 400) << coding;
    EXPECT_FALSE(client.ReadResponse().has_value()) << coding;
  }
}

TEST(Server, AnOpenAddressNeedsAKey) {
  FakeServing serving;
  for (const char* host : {"0.0.0.0", "::", "::ffff:0.0.0.0", "192.0.2.1"}) {
    ServerOptions options;
    options.host = host;
    options.port = 0;
    const auto made = Server::Create(serving, options);
    ASSERT_FALSE(made.ok()) << host;
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(made.status().message().find("API key"), std::string::npos);
  }
  ServerOptions options = WithKeys({"key"});
  options.host = "0.0.0.0";
  options.port = 0;
  EXPECT_TRUE(Server::Create(serving, options).ok());
  options = {};
  options.host = "localhost";
  options.port = 0;
  EXPECT_TRUE(Server::Create(serving, options).ok());
}

TEST(Server, WhatCannotWorkIsRefusedAtTheStart) {
  FakeServing serving;
  ServerOptions options;
  options.port = 70'000;
  EXPECT_EQ(Server::Create(serving, options).status().code(), StatusCode::kInvalidArgument);
  options = {};
  options.max_connections = 0;
  EXPECT_EQ(Server::Create(serving, options).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Server::Create(serving, WithKeys({""})).status().code(), StatusCode::kInvalidArgument);
  TestServer server(serving);
  options = {};
  options.port = server.port();
  const auto taken = Server::Create(serving, options);
  EXPECT_EQ(taken.status().code(), StatusCode::kIoError);
  EXPECT_NE(taken.status().message().find(std::to_string(server.port())), std::string::npos);
  EXPECT_EQ(server.server().url(), "http://127.0.0.1:" + std::to_string(server.port()));
}

TEST(Server, PipelinedRequestsAreAnsweredInOrder) {
  FakeServing serving({.step_us = 500});
  TestServer server(serving);
  TestClient client(server.port());
  ASSERT_TRUE(client.Send(PostText("/v1/completions", kAsk) + PostText("/v1/completions", kStream) +
                          "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_EQ(client.ReadResponse()->json()["choices"][0]["text"], "ababa");
  EXPECT_TRUE(client.ReadResponse()->body.ends_with("[DONE]\n\n"));
  EXPECT_EQ(client.ReadResponse()->body, R"({"status":"ok"})");
}

// The next request arrives just when the answer before it is through and the reading ahead ends: at any moment of that.
TEST(Server, ARequestThatComesAsAnAnswerEndsIsNotLost) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  for (int i = 0; i < 300; ++i) {
    const auto response = client.Post("/v1/completions", i % 2 == 0 ? kAsk : kStream);
    ASSERT_TRUE(response.has_value()) << i;
    ASSERT_EQ(response->status, 200);
  }
}

TEST(Server, ARequestThatComesWhileAnAnswerRunsIsNotLost) {
  FakeServing serving({.paused = true});
  TestServer server(serving);
  TestClient client(server.port());
  ASSERT_TRUE(client.Send(PostText("/v1/completions", kAsk)));
  while (serving.live() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::string next = PostText("/v1/completions", R"({"prompt":"xyz","max_tokens":3})");
  for (const char c : next) {
    ASSERT_TRUE(client.Send(std::string(1, c)));
    if (c == '\n') std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  serving.Resume();
  EXPECT_EQ(client.ReadResponse()->json()["choices"][0]["text"], "ababa");
  EXPECT_EQ(client.ReadResponse()->json()["choices"][0]["text"], "xyz");
}

TEST(Server, AClientThatAsksWhetherToGoOnIsToldSo) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  const std::string body = kAsk;
  ASSERT_TRUE(
      client.Send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n"));
  EXPECT_EQ(client.ReadResponse()->status, 100);
  ASSERT_TRUE(client.Send(body));
  EXPECT_EQ(client.ReadResponse()->status, 200);
}

TEST(Server, AnOldClientIsNotToldToGoOnNorKeptWithACodingItCannotKnow) {
  FakeServing serving;
  TestServer server(serving);
  TestClient asking(server.port());
  const std::string body = kAsk;
  ASSERT_TRUE(asking.Send("POST /v1/completions HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: " +
                          std::to_string(body.size()) + "\r\n\r\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(asking.Send(body));
  EXPECT_EQ(asking.ReadResponse()->status, 200) << "the first that comes";
  for (const char* target : {"/tokenize", "/nothing"}) {
    TestClient coded(server.port());
    ASSERT_TRUE(coded.Send("POST " + std::string(target) +
                           " HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "10\r\n{\"content\":\"abc\"}\r\n0\r\n\r\n"));
    const auto response = coded.ReadResponse();
    ASSERT_TRUE(response.has_value()) << target;
    EXPECT_EQ(response->headers.at("connection"), "close") << target;
    EXPECT_TRUE(coded.IsClosed()) << target;
  }
}

TEST(Server, ChunkedBodiesAreBodies) {
  FakeServing serving;
  TestServer server(serving);
  TestClient client(server.port());
  ASSERT_TRUE(
      client.Send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "b\r\n{\"prompt\":\"\r\n3\r\nab\"\r\n10\r\n,\"max_tokens\":5}\r\n0\r\n\r\n"));
  EXPECT_EQ(client.ReadResponse()->json()["choices"][0]["text"], "ababa");
}

TEST(Server, StopEndsIdleConnectionsAtOnceAndRunningAnswersAtTheirEnd) {
  FakeServing serving({.paused = true});
  TestServer server(serving);
  TestClient idle(server.port()), running(server.port()), streaming(server.port());
  EXPECT_EQ(idle.Get("/health")->status, 200);
  ASSERT_TRUE(running.Send(PostText("/v1/completions", kAsk)));
  ASSERT_TRUE(streaming.Send(PostText("/v1/completions", kStream)));
  while (serving.live() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server.server().Stop();
  EXPECT_TRUE(idle.IsClosed());
  serving.Resume();
  const auto response = running.ReadResponse();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.at("connection"), "close");
  EXPECT_TRUE(streaming.ReadResponse()->body.ends_with("[DONE]\n\n"));
  running.Close();
  streaming.Close();
  server.Stop();
  EXPECT_EQ(serving.live(), 0);
}

TEST(Server, WhatDoesNotEndInTimeIsToldSo) {
  FakeServing serving({.paused = true});
  ServerOptions options;
  options.drain_ms = 50;
  TestServer server(serving, options);
  TestClient plain(server.port()), unbegun(server.port());
  ASSERT_TRUE(plain.Send(PostText("/v1/completions", kAsk)));
  ASSERT_TRUE(unbegun.Send(PostText("/v1/completions", kStream)));
  while (serving.live() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server.Stop();
  for (TestClient* client : {&plain, &unbegun}) {
    const auto response = client->ReadResponse();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 503);
    EXPECT_EQ(response->json()["error"]["code"], "draining");
    EXPECT_TRUE(client->IsClosed());
  }
  EXPECT_EQ(serving.live(), 0);
}

TEST(Server, AStreamThatDoesNotEndInTimeEndsWithAnError) {
  FakeServing serving({.step_us = 2000});
  ServerOptions options;
  options.drain_ms = 50;
  TestServer server(serving, options);
  TestClient client(server.port());
  ASSERT_TRUE(
      client.Send(PostText("/v1/completions", R"({"prompt":"ab","max_tokens":1000000,"stream":true})")));
  while (serving.live() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server.Stop();
  const auto response = client.ReadResponse();
  ASSERT_TRUE(response.has_value()) << "up to its last chunk";
  EXPECT_EQ(response->status, 200);
  const std::string& body = response->body;
  EXPECT_TRUE(body.ends_with("data: [DONE]\n\n"));
  const size_t error = body.find("data: {\"error\"");
  ASSERT_NE(error, std::string::npos);
  EXPECT_NE(body.find("\"code\":\"draining\"", error), std::string::npos);
  EXPECT_EQ(serving.live(), 0);
}

TEST(Server, OneThatTakesNothingHoldsUpTheEndForAMomentOnly) {
  FakeServing serving;
  ServerOptions options;
  options.drain_ms = 50;
  TestServer server(serving, options);
  TestClient deaf(server.port(), 4096);
  ASSERT_TRUE(
      deaf.Send(PostText("/v1/completions", R"({"prompt":"ab","max_tokens":100000000,"stream":true})")));
  while (serving.live() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto begin = std::chrono::steady_clock::now();
  server.Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "the write timeout is 30";
  EXPECT_EQ(serving.live(), 0);
}

TEST(Server, StopMayComeBeforeRun) {
  FakeServing serving;
  ServerOptions options;
  options.port = 0;
  auto server = Server::Create(serving, options).value();
  server->Stop();
  EXPECT_TRUE(server->Run().ok());
}

}  // namespace
}  // namespace holdfast::server
