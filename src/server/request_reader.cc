#include "server/request_reader.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <utility>

namespace holdfast::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// Of bodies of all connections together: a thousand slow clients with large requests must not fill the
// memory.
constexpr int64_t kBodiesAtATime = 8;

}  // namespace

RequestReader::RequestReader(std::shared_ptr<SocketStream> stream, ServerState& state)
    : stream_(std::move(stream)), state_(state) {
  parser_.header_limit(static_cast<uint32_t>(state_.options.max_header_bytes));
  parser_.body_limit(static_cast<uint64_t>(state_.options.max_body_bytes));
}

RequestReader::~RequestReader() {
  state_.http.body_bytes -= counted_bytes_;
}

asio::awaitable<bool> RequestReader::WaitForFirstByte() {
  auto& buffer = stream_->buffer();
  if (buffer.size() > 0) co_return true;
  if (stream_->aborted() || state_.draining) co_return false;
  stream_->Arm(state_.options.idle_timeout_ms);
  const auto [error, count] = co_await stream_->socket().async_read_some(buffer.prepare(4096), kAwait);
  stream_->Disarm();
  buffer.commit(count);
  co_return !error && !stream_->aborted();
}

asio::awaitable<RequestReader::Outcome> RequestReader::ReadHead() {
  stream_->Arm(state_.options.read_timeout_ms);  // until ReadBody is through
  const auto [error, count] =
      co_await http::async_read_header(stream_->socket(), stream_->buffer(), parser_, kAwait);
  static_cast<void>(count);
  if (parser_.is_done()) stream_->Disarm();
  co_return error ? Fail(error) : Outcome::kOk;
}

asio::awaitable<RequestReader::Outcome> RequestReader::ReadBody() {
  // HTTP/1.0 has no interim answers (RFC 9110, section 10.1.1).
  const bool may_ask = !is_http_1_0() && !parser_.is_done();
  if (may_ask && http::token_list(Header(http::field::expect)).exists("100-continue")) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    // Fits into the socket's buffer: nothing but answers that were read has been written before.
    const auto [error, count] =
        co_await stream_->socket().async_write_some(asio::buffer(kContinue.data(), kContinue.size()), kAwait);
    if (error || count != kContinue.size()) {
      stream_->Disarm();
      co_return Outcome::kClosed;
    }
  }
  while (!parser_.is_done()) {
    if (stream_->timed_out() || stream_->aborted()) co_return Fail(asio::error::operation_aborted);
    const auto [error, count] =
        co_await http::async_read_some(stream_->socket(), stream_->buffer(), parser_, kAwait);
    static_cast<void>(count);
    if (error) co_return Fail(error);
    if (!CountBody()) {
      stream_->Disarm();
      error_ = {429, "request body: the server is reading too many large ones at this moment", "", "busy"};
      co_return Outcome::kBad;
    }
  }
  stream_->Disarm();
  co_return Outcome::kOk;
}

bool RequestReader::CountBody() {
  const auto bytes = static_cast<int64_t>(parser_.get().body().size());
  state_.http.body_bytes += bytes - counted_bytes_;
  counted_bytes_ = bytes;
  return state_.http.body_bytes <= kBodiesAtATime * state_.options.max_body_bytes;
}

std::string RequestReader::Header(http::field name) const {
  const auto at = parser_.get().find(name);
  return at == parser_.get().end() ? std::string() : std::string(at->value());
}

RequestReader::Outcome RequestReader::Fail(const boost::system::error_code& error) {
  stream_->Disarm();
  if (stream_->aborted()) return Outcome::kClosed;
  if (stream_->timed_out()) {
    error_ = {
        408,
        "request: not complete after " + std::to_string(state_.options.read_timeout_ms) + " ms, the limit",
        "", "timeout"};
    return Outcome::kBad;
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    error_ = {431,
              "request: the head is larger than " + std::to_string(state_.options.max_header_bytes) +
                  " bytes, the limit",
              "", "header_too_large"};
    return Outcome::kBad;
  }
  if (error == http::error::body_limit) {
    error_ = {
        413,
        "request body: larger than " + std::to_string(state_.options.max_body_bytes) + " bytes, the limit",
        "", "body_too_large"};
    return Outcome::kBad;
  }
  const bool is_end = error == http::error::end_of_stream || error == http::error::partial_message;
  if (is_end || error.category() != http::make_error_code(http::error::end_of_stream).category()) {
    return Outcome::kClosed;
  }
  error_ = {400, "request: not valid HTTP: " + error.message(), "", "bad_http"};
  return Outcome::kBad;
}

}  // namespace holdfast::server
