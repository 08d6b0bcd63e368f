#include "server/router.h"

#include <gtest/gtest.h>

#include "server/response_head.h"

namespace holdfast::server {
namespace {

TEST(Router, FindsEveryEndpointAndWhoMayUseIt) {
  const auto route = [](const char* method, const char* target) {
    return std::get<Route>(FindRoute(method, target));
  };
  EXPECT_EQ(route("GET", "/health").access, Access::kAnyone);
  EXPECT_EQ(route("GET", "/").access, Access::kOperator);
  EXPECT_EQ(route("HEAD", "/metrics?x=1").endpoint, Endpoint::kMetrics);
  EXPECT_EQ(route("GET", "/v1/cache").access, Access::kOperator);
  EXPECT_EQ(route("GET", "/v1/models").endpoint, Endpoint::kModels);
  EXPECT_EQ(route("GET", "/v1/models/a%2Fb%20c").name, "a/b c");
  EXPECT_EQ(route("POST", "/v1/completions").access, Access::kTenant);
  EXPECT_EQ(route("POST", "/v1/chat/completions").endpoint, Endpoint::kChat);
  EXPECT_EQ(route("POST", "/tokenize").endpoint, Endpoint::kTokenize);
  EXPECT_EQ(route("POST", "/detokenize").endpoint, Endpoint::kDetokenize);
}

TEST(Router, AnotherPathIs404AndAnotherMethod405) {
  for (const char* target : {"/v1", "/v1/models/", "/health/", "//", "", "*", "/../v1/models", "/V1/models"})
    EXPECT_EQ(std::get<NoRoute>(FindRoute("GET", target)).error.status, 404) << target;
  const auto post = std::get<NoRoute>(FindRoute("GET", "/v1/completions"));
  EXPECT_EQ(post.error.status, 405);
  EXPECT_EQ(post.allow, "POST");
  EXPECT_EQ(std::get<NoRoute>(FindRoute("DELETE", "/health")).allow, "GET, HEAD");
  EXPECT_EQ(std::get<NoRoute>(FindRoute("HEAD", "/tokenize")).error.status, 405);
}

TEST(Router, PercentEscapesThatAreNoneStay) {
  EXPECT_EQ(DecodePercent("%41%zz%4"), "A%zz%4");
}

TEST(Router, ATargetMayHaveSchemeAndAuthority) {
  EXPECT_EQ(std::get<Route>(FindRoute("GET", "http://a:1/health?x")).endpoint, Endpoint::kHealth);
  EXPECT_EQ(std::get<Route>(FindRoute("GET", "http://a")).endpoint, Endpoint::kPage);
  EXPECT_EQ(std::get<Route>(FindRoute("GET", "HTTP://a/health")).endpoint, Endpoint::kHealth);
  EXPECT_EQ(std::get<Route>(FindRoute("GET", "http://a?a=/v1/models")).endpoint, Endpoint::kPage);
  EXPECT_EQ(std::get<Route>(FindRoute("GET", "http://a#/v1/models")).endpoint, Endpoint::kPage);
  EXPECT_EQ(std::get<NoRoute>(FindRoute("GET", "ftp://a/health")).error.status, 404);
  EXPECT_EQ(SplitTarget("http://a:1/health?http://b").authority, "a:1");
  EXPECT_EQ(SplitTarget("http://localhost@evil.example?/").authority, "evil.example");
  EXPECT_EQ(SplitTarget("/http://a/").authority, std::nullopt);
  EXPECT_EQ(SplitTarget("http://").path, "/");
}

TEST(ResponseHead, AHostIsLocalWhereNoOneElseCouldHaveNamedIt) {
  for (const char* host : {"", "localhost", "localhost:8080", "LOCALHOST", "mybox:1", "127.0.0.1",
                           "127.0.0.1:80", "192.0.2.7", "[::1]:8080", "[::1]", "a.localhost:1"})
    EXPECT_TRUE(IsLocalHost(host)) << host;
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.",
                           "a.localhost.evil", "1.2.3", "0x7f.1"})
    EXPECT_FALSE(IsLocalHost(host)) << host;
}

TEST(ResponseHead, AnOriginIsOnesOwnOnlyWhereItIsTheHost) {
  EXPECT_TRUE(IsOwnOrigin("", "a:1"));
  EXPECT_TRUE(IsOwnOrigin("http://a:1", "a:1"));
  EXPECT_FALSE(IsOwnOrigin("http://evil.example", "a:1"));
  EXPECT_FALSE(IsOwnOrigin("null", "a:1"));
}

TEST(ResponseHead, ChunksSayTheirSizeInHex) {
  EXPECT_EQ(HttpChunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

}  // namespace
}  // namespace holdfast::server
