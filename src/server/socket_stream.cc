#include "server/socket_stream.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

namespace holdfast::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadAheadBytes = 4096;
constexpr int64_t kLingerMs = 2000;

}  // namespace

SocketStream::SocketStream(asio::ip::tcp::socket socket, size_t buffer_bytes, int64_t write_timeout_ms)
    : socket_(std::move(socket)),
      buffer_(buffer_bytes),
      deadline_(socket_.get_executor()),
      wake_(socket_.get_executor()),
      write_timeout_ms_(write_timeout_ms) {}

void SocketStream::Arm(int64_t milliseconds) {
  timed_out_ = false;
  deadline_.expires_after(std::chrono::milliseconds(milliseconds));
  deadline_.async_wait([self = shared_from_this(), armed = ++armed_](error_code error) {
    if (error || armed != self->armed_) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void SocketStream::Disarm() {
  ++armed_;
  deadline_.cancel();
}

asio::awaitable<bool> SocketStream::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (left_ || aborted_) co_return false;
    Arm(write_timeout_ms_);
    const auto [error, count] =
        co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kAwait);
    Disarm();
    if (error) {
      left_ = true;
      co_return false;
    }
    bytes.remove_prefix(count);
  }
  co_return !left_ && !aborted_;
}

void SocketStream::StartWatching() {
  watching_ = true;
  ReadAhead();
}

void SocketStream::ReadAhead() {
  if (reading_ || !watching_ || buffer_.size() + kReadAheadBytes > buffer_.max_size()) return;
  reading_ = true;
  socket_.async_read_some(buffer_.prepare(kReadAheadBytes),
                          [self = shared_from_this()](error_code error, size_t count) {
                            self->reading_ = false;
                            self->buffer_.commit(count);
                            if (!error) {
                              self->ReadAhead();
                            } else if (error != asio::error::operation_aborted) {
                              self->left_ = true;
                              error_code ignored;
                              self->socket_.cancel(ignored);  // a write that waits for a client that is gone
                            }
                            // StopWatching waits for this, whatever came; one that waits for an event looks again.
                            if (error || !self->reading_) self->wake_.cancel();
                          });
}

asio::awaitable<void> SocketStream::StopWatching() {
  watching_ = false;
  if (reading_) {
    error_code ignored;
    socket_.cancel(ignored);
  }
  while (reading_) {
    wake_.expires_at(asio::steady_timer::time_point::max());
    co_await wake_.async_wait(kAwait);
  }
}

asio::awaitable<void> SocketStream::WaitForWake() {
  while (!woken_ && !left_ && !aborted_) {
    wake_.expires_at(asio::steady_timer::time_point::max());
    co_await wake_.async_wait(kAwait);
  }
  woken_ = false;
}

void SocketStream::Wake() {
  woken_ = true;
  wake_.cancel();
}

void SocketStream::Abort() {
  aborted_ = true;
  error_code ignored;
  socket_.cancel(ignored);
  wake_.cancel();
}

asio::awaitable<void> SocketStream::Close() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  Arm(kLingerMs);
  char rest[4096];
  while (!left_ && !aborted_ && !timed_out_) {
    const auto [error, count] = co_await socket_.async_read_some(asio::buffer(rest), kAwait);
    if (error) break;
    static_cast<void>(count);
  }
  Disarm();
  socket_.close(ignored);
}

}  // namespace holdfast::server
