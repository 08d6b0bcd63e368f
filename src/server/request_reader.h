// Reads requests off a socket with every limit on them: the head, the body, the time.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/server_state.h"
#include "server/socket_stream.h"

namespace holdfast::server {

// One request of a connection, from its first byte to its last. The head is read first, so that a request is
// refused before its body is.
class RequestReader {
 public:
  RequestReader(std::shared_ptr<SocketStream> stream, ServerState& state);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  enum class Outcome : uint8_t {
    kOk,
    kClosed,  // by the client, for idleness, or because the server stops: nothing is to be answered
    kBad,     // error() is to be answered, and the connection closed
  };

  // Waits for the first byte of a request, then for its head.
  boost::asio::awaitable<bool> WaitForFirstByte();  // false: as kClosed
  boost::asio::awaitable<Outcome> ReadHead();
  // The body, once the head was found good.
  boost::asio::awaitable<Outcome> ReadBody();

  const ApiError& error() const { return error_; }
  // After ReadHead. Of a header that is there several times, the first.
  std::string Header(boost::beast::http::field name) const;
  size_t count(boost::beast::http::field name) const { return parser_.get().count(name); }
  std::string method() const { return std::string(parser_.get().method_string()); }
  std::string target() const { return std::string(parser_.get().target()); }
  bool is_http_1_0() const { return parser_.get().version() == 10; }
  bool keep_alive() const { return parser_.keep_alive(); }
  bool has_unread_body() const { return !parser_.is_done(); }
  std::string TakeBody() { return std::move(parser_.get().body()); }

 private:
  Outcome Fail(const boost::system::error_code& error);
  bool CountBody();  // false: too many bytes of bodies are being read at this moment

  std::shared_ptr<SocketStream> stream_;
  ServerState& state_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  ApiError error_;
  int64_t counted_bytes_ = 0;
};

}  // namespace holdfast::server
