// An HTTP client over one connection that stays open between requests, for coroutines of one thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast::load {

struct HttpTarget {
  std::string host, port;  // host without the brackets of an IPv6 address
  std::string authority;   // what the Host field says
  std::string base_path;   // before /v1/...; empty or with a slash at its beginning and none at its end
};

// http://HOST[:PORT][/PATH]; a /v1 at the end is taken off. Error kInvalidArgument.
Result<HttpTarget> ParseHttpUrl(const std::string& url);

struct HttpRequest {
  bool is_post = false;
  std::string path, body;  // JSON
  // Pieces of the body of an answer of status 200, as they arrive; false: read no more of it. Empty: the body is
  // collected.
  std::function<bool(std::string_view piece)> on_piece;
};

struct HttpAnswer {
  int status = 0;
  std::string body;  // empty where on_piece took it
};

class HttpClient {
 public:
  using Endpoints = boost::asio::ip::tcp::resolver::results_type;

  // `endpoints` and `target` must outlive it. timeout_ms is of each wait for the other side.
  HttpClient(boost::asio::io_context& io, const Endpoints& endpoints, const HttpTarget& target,
             std::string api_key, int64_t timeout_ms);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Connects where no connection is open. A connection that the server closed since the last request is opened anew,
  // once. One request at a time. Error kIoError; the connection is closed then.
  boost::asio::awaitable<Result<HttpAnswer>> Send(HttpRequest request);

 private:
  class Connection;

  boost::asio::io_context& io_;
  const Endpoints& endpoints_;
  const HttpTarget& target_;
  const std::string api_key_;
  const int64_t timeout_ms_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace holdfast::load
