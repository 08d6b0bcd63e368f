#include "server/testing_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

namespace holdfast::server {

TestClient::TestClient(int port, int receive_buffer_bytes)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval timeout{10, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (receive_buffer_bytes > 0)
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  const int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

TestClient::~TestClient() {
  Close();
}

void TestClient::Close(bool reset) {
  if (fd_ < 0) return;
  const linger now{1, 0};
  if (reset) ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd_);
  fd_ = -1;
}

bool TestClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool TestClient::Fill() {
  char bytes[16 << 10];
  ssize_t count = 0;
  do {
    count = ::recv(fd_, bytes, sizeof bytes, 0);
  } while (count < 0 && errno == EINTR);  // the process was stopped and goes on
  if (count <= 0) return false;
  pending_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string TestClient::Receive() {
  if (pending_.empty()) Fill();
  return std::exchange(pending_, std::string());
}

bool TestClient::IsClosed() {
  if (!pending_.empty()) return false;
  char byte;
  ssize_t count = 0;
  do {
    count = ::recv(fd_, &byte, 1, 0);
  } while (count < 0 && errno == EINTR);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

std::optional<TestResponse> TestClient::ReadResponse(bool head) {
  size_t end;
  while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return std::nullopt;
  }
  const std::string text = pending_.substr(0, end + 2);
  pending_.erase(0, end + 4);
  TestResponse response;
  response.status = std::atoi(text.c_str() + text.find(' '));
  for (size_t at = text.find("\r\n") + 2; at < text.size();) {
    const size_t line_end = text.find("\r\n", at), colon = text.find(": ", at);
    std::string name = text.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = text.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  if (head || response.status == 100) return response;
  if (response.headers.contains("content-length")) {
    const size_t size = std::stoul(response.headers["content-length"]);
    while (pending_.size() < size) {
      if (!Fill()) return std::nullopt;
    }
    response.body = pending_.substr(0, size);
    pending_.erase(0, size);
    return response;
  }
  if (!response.headers.contains("transfer-encoding")) {
    while (Fill()) {
    }
    response.body = std::exchange(pending_, std::string());
    return response;
  }
  while (true) {
    size_t line;
    while ((line = pending_.find("\r\n")) == std::string::npos) {
      if (!Fill()) return std::nullopt;
    }
    const size_t size = std::stoul(pending_.substr(0, line), nullptr, 16);
    while (pending_.size() < line + 2 + size + 2) {
      if (!Fill()) return std::nullopt;
    }
    response.body += pending_.substr(line + 2, size);
    EXPECT_EQ(pending_.substr(line + 2 + size, 2), "\r\n");
    pending_.erase(0, line + 2 + size + 2);
    if (size == 0) return response;
  }
}

std::string PostText(const std::string& target, const std::string& body, const std::string& headers) {
  return "POST " + target + " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

std::optional<TestResponse> TestClient::Get(const std::string& target, const std::string& headers) {
  if (!Send("GET " + target + " HTTP/1.1\r\nHost: test\r\n" + headers + "\r\n")) return std::nullopt;
  return ReadResponse();
}

std::optional<TestResponse> TestClient::Post(const std::string& target, const std::string& body,
                                             const std::string& headers) {
  if (!Send(PostText(target, body, headers))) return std::nullopt;
  return ReadResponse();
}

TestServer::TestServer(ServingEngine& engine, ServerOptions options) {
  options.port = 0;
  auto made = Server::Create(engine, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  server_ = std::move(made).value();
  thread_ = std::thread([this] { EXPECT_TRUE(server_->Run().ok()); });
}

void TestServer::Stop() {
  server_->Stop();
  if (thread_.joinable()) thread_.join();
}

TestServer::~TestServer() {
  Stop();
}

}  // namespace holdfast::server
