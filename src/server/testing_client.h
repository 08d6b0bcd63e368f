// A server in a thread and raw sockets to it, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "holdfast/server.h"
#include "server/json_body.h"

namespace holdfast::server {

struct TestResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  Json json() const { return Json::parse(body, nullptr, false); }
};

class TestClient {
 public:
  explicit TestClient(int port, int receive_buffer_bytes = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool Send(std::string_view bytes);
  // What has come, at least one byte; empty: the other side has closed, or nothing came for ten seconds.
  std::string Receive();
  // The next response. None: the other side closed before it was through. head: one to a HEAD request.
  std::optional<TestResponse> ReadResponse(bool head = false);
  // Whether the other side closes without a further byte.
  bool IsClosed();
  void Close(bool reset = false);  // reset: at once, unread bytes thrown away

  std::optional<TestResponse> Get(const std::string& target, const std::string& headers = "");
  std::optional<TestResponse> Post(const std::string& target, const std::string& body,
                                   const std::string& headers = "");
  int fd() const { return fd_; }

 private:
  bool Fill();

  int fd_ = -1;
  std::string pending_;
};

std::string PostText(const std::string& target, const std::string& body, const std::string& headers = "");

// Serves until it is destroyed.
class TestServer {
 public:
  explicit TestServer(ServingEngine& engine, ServerOptions options = {});
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  int port() const { return server_->port(); }
  Server& server() { return *server_; }
  void Stop();  // and waits until Run has returned

 private:
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace holdfast::server
