#include "server/load_client.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <tuple>
#include <utility>

namespace holdfast::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Request = http::request<http::string_body>;

// Errors come back as values.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

constexpr size_t kMaxCollectedBytes = size_t{16} << 20;

Status Failure(const char* what, const beast::error_code& error, int64_t timeout_ms) {
  if (error == beast::error::timeout) {
    return IoError(std::string(what) + ": nothing came for " + std::to_string(timeout_ms) + " ms");
  }
  return IoError(std::string(what) + ": " + error.message());
}

}  // namespace

Result<HttpTarget> ParseHttpUrl(const std::string& url) {
  const auto wrong = [&](const char* why) {
    return InvalidArgument("url '" + url + "': " + why + ", must be http://HOST[:PORT][/PATH]");
  };
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme))
    return wrong(url.starts_with("https://") ? "TLS is not supported" : "no http://");
  std::string_view rest = std::string_view(url).substr(kScheme.size());
  for (const char c : rest) {
    if (c <= ' ' || c >= 0x7f || c == '@' || c == '?' || c == '#')
      return wrong("a character that has no place there");
  }
  HttpTarget target;
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) target.base_path = rest.substr(slash);
  rest = rest.substr(0, slash);
  while (target.base_path.ends_with('/')) target.base_path.pop_back();
  if (target.base_path.ends_with("/v1")) target.base_path.resize(target.base_path.size() - 3);
  target.authority = rest;
  std::string_view port = "80";
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return wrong("a bracket is not closed");
    target.host = rest.substr(1, end - 1);
    rest = rest.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return wrong("something stands after the bracket");
    if (!rest.empty()) port = rest.substr(1);
  } else {
    const size_t colon = rest.find(':');
    target.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon + 1);
  }
  if (target.host.empty()) return wrong("no host");
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string_view::npos ||
      std::stoi(std::string(port)) < 1 || std::stoi(std::string(port)) > 65535) {
    return wrong("the port is no number in [1, 65535]");
  }
  target.port = port;
  return target;
}

class HttpClient::Connection {
 public:
  Connection(asio::io_context& io, int64_t timeout_ms) : stream_(io), timeout_ms_(timeout_ms) {}

  asio::awaitable<Status> Connect(const Endpoints& endpoints) {
    beast::error_code error = asio::error::host_not_found;
    beast::error_code ignored;
    for (const auto& found : endpoints) {
      stream_.socket().close(ignored);
      // Opened here: async_connect does not tell that there are no descriptors left.
      stream_.socket().open(found.endpoint().protocol(), error);
      if (error) continue;
      Arm();
      std::tie(error) = co_await stream_.async_connect(found.endpoint(), kAwait);
      if (!error) break;
    }
    if (error) co_return Failure("connect", error, timeout_ms_);
    // What is slower for its lack still works.
    stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    co_return OkStatus();
  }

  asio::awaitable<Result<HttpAnswer>> Exchange(const Request& request, const HttpRequest& wanted) {
    Arm();
    auto [write_error, written] = co_await http::async_write(stream_, request, kAwait);
    if (write_error) {
      is_stale_ = write_error != beast::error::timeout;
      co_return Failure("write", write_error, timeout_ms_);
    }
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    Arm();
    auto [read_error, read] = co_await http::async_read_header(stream_, buffer_, parser, kAwait);
    if (read_error) {
      is_stale_ = buffer_.size() == 0 && read == 0 && read_error != beast::error::timeout;
      co_return Failure("read", read_error, timeout_ms_);
    }
    HttpAnswer answer{.status = static_cast<int>(parser.get().result_int()), .body = {}};
    const Status body = co_await ReadBody(parser, wanted, answer);
    if (!body.ok()) co_return body;
    keep_ = parser.is_done() && parser.keep_alive();
    co_return answer;
  }

  bool is_stale() const { return is_stale_; }  // the server had closed it before the request came
  bool keep() const { return keep_; }

 private:
  void Arm() { stream_.expires_after(std::chrono::milliseconds(timeout_ms_)); }

  asio::awaitable<Status> ReadBody(http::response_parser<http::buffer_body>& parser,
                                   const HttpRequest& wanted, HttpAnswer& answer) {
    std::array<char, 16384> piece;
    while (!parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      parser.get().body().more = true;
      Arm();
      auto [error, read] = co_await http::async_read_some(stream_, buffer_, parser, kAwait);
      const std::string_view got(piece.data(), piece.size() - parser.get().body().size);
      if (wanted.on_piece && answer.status == 200) {
        if (!got.empty() && !wanted.on_piece(got)) co_return OkStatus();
      } else {
        answer.body += got;
      }
      if (error && error != http::error::need_buffer) co_return Failure("read", error, timeout_ms_);
      if (answer.body.size() > kMaxCollectedBytes) {
        co_return IoError("read: the answer is longer than " + std::to_string(kMaxCollectedBytes) + " bytes");
      }
    }
    co_return OkStatus();
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  int64_t timeout_ms_;
  bool is_stale_ = false, keep_ = false;
};

HttpClient::HttpClient(asio::io_context& io, const Endpoints& endpoints, const HttpTarget& target,
                       std::string api_key, int64_t timeout_ms)
    : io_(io),
      endpoints_(endpoints),
      target_(target),
      api_key_(std::move(api_key)),
      timeout_ms_(timeout_ms) {}

HttpClient::~HttpClient() = default;

asio::awaitable<Result<HttpAnswer>> HttpClient::Send(HttpRequest wanted) {
  Request request(wanted.is_post ? http::verb::post : http::verb::get, target_.base_path + wanted.path, 11);
  request.set(http::field::host, target_.authority);
  request.set(http::field::user_agent, "holdfast-bench");
  request.set(http::field::accept, wanted.on_piece ? "text/event-stream" : "application/json");
  if (!api_key_.empty()) request.set(http::field::authorization, "Bearer " + api_key_);
  if (wanted.is_post) {
    request.set(http::field::content_type, "application/json");
    request.body() = std::move(wanted.body);
    request.prepare_payload();
  }
  for (;;) {
    const bool is_reused = connection_ != nullptr;
    if (!is_reused) {
      connection_ = std::make_unique<Connection>(io_, timeout_ms_);
      const Status connected = co_await connection_->Connect(endpoints_);
      if (!connected.ok()) {
        connection_.reset();
        co_return connected;
      }
    }
    Result<HttpAnswer> answer = co_await connection_->Exchange(request, wanted);
    const bool again = !answer.ok() && is_reused && connection_->is_stale();
    if (!answer.ok() || !connection_->keep()) connection_.reset();
    if (!again) co_return answer;
  }
}

}  // namespace holdfast::load
