// A socket with deadlines, and with an eye on whether its client is still there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <memory>
#include <string_view>

namespace holdfast::server {

// One thread. Handlers in flight share its ownership.
class SocketStream : public std::enable_shared_from_this<SocketStream> {
 public:
  // buffer_bytes: the most that is kept of what was received and not used yet.
  SocketStream(boost::asio::ip::tcp::socket socket, size_t buffer_bytes, int64_t write_timeout_ms);

  boost::asio::ip::tcp::socket& socket() { return socket_; }
  boost::beast::flat_buffer& buffer() { return buffer_; }

  // What runs on the socket ends with an error after so long, and timed_out() says why. Until Disarm or
  // another Arm.
  void Arm(int64_t milliseconds);
  void Disarm();
  bool timed_out() const { return timed_out_; }

  // Writes all of it. false: the client took nothing for the write timeout, left, or the stream was aborted.
  boost::asio::awaitable<bool> Write(std::string_view bytes);

  // Reads ahead into the buffer while an answer is made: pipelined requests are kept, and that the client has
  // left is seen at once. A client that sends more than the buffer holds is seen leaving when it is written
  // to.
  void StartWatching();
  boost::asio::awaitable<void> StopWatching();  // afterwards no read is in flight
  // Until Wake, or the client has left, or the stream was aborted.
  boost::asio::awaitable<void> WaitForWake();
  void Wake();

  bool left() const { return left_; }  // the client has closed, or is lost
  void Abort();
  bool aborted() const { return aborted_; }
  // Ends our side, and reads what is still under way for a short time: closing with unread bytes would make
  // the system throw away what the client has not read yet.
  boost::asio::awaitable<void> Close();

 private:
  void ReadAhead();

  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer deadline_, wake_;
  const int64_t write_timeout_ms_;
  uint64_t armed_ = 0;  // which Arm a timer's handler belongs to
  bool timed_out_ = false, left_ = false, aborted_ = false;
  bool woken_ = false, watching_ = false, reading_ = false;
};

}  // namespace holdfast::server
