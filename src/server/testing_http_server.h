// A server that does to its clients what a test says: blocking, a thread a connection.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace holdfast::load {

class TestingHttpServer {
 public:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  class Wire {
   public:
    explicit Wire(boost::asio::ip::tcp::socket& socket) : socket_(socket) {}
    void Send(std::string_view bytes);  // what a client that left does not take is dropped
    void Answer(int status, std::string_view body);
    void BeginStream();  // 200 and chunked transfer
    void Chunk(std::string_view data);
    void EndStream();

   private:
    boost::asio::ip::tcp::socket& socket_;
  };
  // False closes the connection.
  using Handler = std::function<bool(Wire& wire, const Request& request)>;

  explicit TestingHttpServer(Handler handler);
  ~TestingHttpServer();  // closes all connections; handlers must end

  std::string url() const;
  int connections() const { return connections_; }
  std::vector<Request> requests() const;  // so far

 private:
  void Accept();
  void Serve(boost::asio::ip::tcp::socket& socket);

  Handler handler_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<int> connections_ = 0;
  mutable std::mutex mutex_;
  std::list<boost::asio::ip::tcp::socket> sockets_;
  std::list<std::thread> threads_;
  std::vector<Request> requests_;
  std::thread accepting_;
};

}  // namespace holdfast::load
