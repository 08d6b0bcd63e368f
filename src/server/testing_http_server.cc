#include "server/testing_http_server.h"

#include <sys/socket.h>

#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>

namespace holdfast::load {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;

void TestingHttpServer::Wire::Send(std::string_view bytes) {
  beast::error_code ignored;
  asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), ignored);
}

void TestingHttpServer::Wire::Answer(int status, std::string_view body) {
  Send("HTTP/1.1 " + std::to_string(status) +
       " Status\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
       "\r\n\r\n" + std::string(body));
}

void TestingHttpServer::Wire::BeginStream() {
  Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void TestingHttpServer::Wire::Chunk(std::string_view data) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  Send(size + std::string(data) + "\r\n");
}

void TestingHttpServer::Wire::EndStream() {
  Send("0\r\n\r\n");
}

TestingHttpServer::TestingHttpServer(Handler handler)
    : handler_(std::move(handler)), acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
  accepting_ = std::thread([this] { Accept(); });
}

TestingHttpServer::~TestingHttpServer() {
  ::shutdown(acceptor_.native_handle(), SHUT_RDWR);  // closing alone would not wake accept
  accepting_.join();
  {
    const std::lock_guard lock(mutex_);
    for (tcp::socket& socket : sockets_) ::shutdown(socket.native_handle(), SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

std::string TestingHttpServer::url() const {
  return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
}

std::vector<TestingHttpServer::Request> TestingHttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void TestingHttpServer::Accept() {
  for (;;) {
    beast::error_code error;
    tcp::socket socket(io_);
    acceptor_.accept(socket, error);
    if (error) return;
    socket.set_option(tcp::no_delay(true), error);
    ++connections_;
    const std::lock_guard lock(mutex_);
    tcp::socket& kept = sockets_.emplace_back(std::move(socket));
    threads_.emplace_back([this, &kept] { Serve(kept); });
  }
}

void TestingHttpServer::Serve(tcp::socket& socket) {
  beast::flat_buffer buffer;
  Wire wire(socket);
  for (;;) {
    beast::error_code error;
    Request request;
    beast::http::read(socket, buffer, request, error);
    if (error) break;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (!handler_(wire, request)) break;
  }
  ::shutdown(socket.native_handle(), SHUT_RDWR);
}

}  // namespace holdfast::load
