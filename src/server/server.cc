// Listens, accepts, stops.
#include "holdfast/server.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "server/server_state.h"

namespace holdfast {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using server::ServerState;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr int kSocketSendBytes = 64 << 10;  // what a client that does not read can make the system hold
// When every connection is taken, one that has been idle for so long gives way to a client that may be
// waiting.
constexpr auto kIdleCheck = std::chrono::milliseconds(250);
constexpr auto kIdleEnough = std::chrono::seconds(1);
constexpr auto kAcceptRetry = std::chrono::milliseconds(50);
constexpr auto kLastWords = std::chrono::seconds(1);

Status CheckRange(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return OkStatus();
  return InvalidArgument("server: " + std::string(name) + " is " + std::to_string(value) + ", must be in [" +
                         std::to_string(min) + ", " + std::to_string(max) + "]");
}

Status ValidateOptions(const ServerOptions& o) {
  constexpr int64_t kDay = 24LL * 3600 * 1000;
  for (const Status& status : {CheckRange("port", o.port, 0, 65535),
                               CheckRange("max_body_bytes", o.max_body_bytes, 1, int64_t{1} << 30),
                               CheckRange("max_header_bytes", o.max_header_bytes, 256, 1 << 20),
                               CheckRange("max_connections", o.max_connections, 1, 1 << 20),
                               CheckRange("read_timeout_ms", o.read_timeout_ms, 1, kDay),
                               CheckRange("idle_timeout_ms", o.idle_timeout_ms, 1, kDay),
                               CheckRange("write_timeout_ms", o.write_timeout_ms, 1, kDay),
                               CheckRange("drain_ms", o.drain_ms, 0, kDay)}) {
    if (!status.ok()) return status;
  }
  return OkStatus();
}

Result<asio::ip::address> AddressOf(const std::string& host) {
  if (host == "localhost") return asio::ip::address(asio::ip::address_v4::loopback());
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return address;
  asio::io_context io;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, "", tcp::resolver::passive, error);
  if (error || found.empty())
    return InvalidArgument("server: host " + host + " is no address: " + error.message());
  return found.begin()->endpoint().address();
}

bool IsLoopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

class HttpServer final : public Server {
 public:
  HttpServer(ServingEngine& engine, const ServerOptions& options, server::ApiKeys keys)
      : state_(engine, options, std::move(keys)),
        acceptor_(state_.io),
        stop_event_(state_.io),
        capacity_(state_.io),
        drain_timer_(state_.io) {}
  ~HttpServer() override {
    state_.workers.join();
    if (stop_fd_ >= 0) ::close(stop_fd_);
  }

  Status Listen(const asio::ip::address& address);
  void SetModel(const ModelInfo& info, const std::string& name);
  int port() const override { return port_; }
  std::string url() const override { return url_; }
  Status Run() override;
  void Stop() override {
    const uint64_t one = 1;
    static_cast<void>(!::write(stop_fd_, &one, sizeof one));  // write is safe in a signal handler
  }

 private:
  asio::awaitable<void> AcceptLoop();
  asio::awaitable<void> StopLoop();
  void Start(tcp::socket socket);
  void BeginDrain();
  void EndDrain();
  void ConnectionEnded();
  void CloseLongestIdle();

  ServerState state_;
  tcp::acceptor acceptor_;
  asio::posix::stream_descriptor stop_event_;
  asio::steady_timer capacity_, drain_timer_;
  int stop_fd_ = -1;
  int port_ = 0;
  std::string url_;
};

Status HttpServer::Listen(const asio::ip::address& address) {
  const auto failed = [&](const error_code& error) {
    return IoError("server: listen on " + address.to_string() + " port " +
                   std::to_string(state_.options.port) + ": " + error.message());
  };
  error_code error;
  const tcp::endpoint endpoint(address, static_cast<uint16_t>(state_.options.port));
  if (acceptor_.open(endpoint.protocol(), error); error) return failed(error);
  if (acceptor_.set_option(tcp::acceptor::reuse_address(true), error); error) return failed(error);
  if (acceptor_.bind(endpoint, error); error) return failed(error);
  if (acceptor_.listen(asio::socket_base::max_listen_connections, error); error) return failed(error);
  const tcp::endpoint bound = acceptor_.local_endpoint(error);
  if (error) return failed(error);
  port_ = bound.port();
  url_ = "http://" + (address.is_v6() ? "[" + address.to_string() + "]" : address.to_string()) + ":" +
         std::to_string(port_);
  stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd_ < 0) return IoError("server: cannot create an eventfd");
  const int own =
      ::dup(stop_fd_);  // the descriptor's own: Stop may be called while this object lives, Run or not
  if (own < 0 || (stop_event_.assign(own, error), error)) return IoError("server: cannot watch an eventfd");
  return OkStatus();
}

// Its name in the API: the one given, else what the model's file says, else that file's own name.
void HttpServer::SetModel(const ModelInfo& info, const std::string& name) {
  state_.model.name = !name.empty() ? name : info.name;
  if (state_.model.name.empty()) state_.model.name = info.path.substr(info.path.find_last_of('/') + 1);
  state_.model.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
}

void HttpServer::Start(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSocketSendBytes), ignored);
  // What a connection throws (memory that ends) closes it, and no other.
  asio::co_spawn(state_.io, server::ServeConnection(std::move(socket), state_),
                 [this](const std::exception_ptr&) { ConnectionEnded(); });
}

void HttpServer::ConnectionEnded() {
  capacity_.cancel();
  if (state_.draining && state_.connections.empty()) drain_timer_.cancel();
}

void HttpServer::CloseLongestIdle() {
  server::OpenConnection* longest = nullptr;
  auto since = std::chrono::steady_clock::now() - kIdleEnough;
  for (server::OpenConnection* connection : state_.connections) {
    const auto idle = connection->idle_since();
    if (!idle.has_value() || *idle > since) continue;
    longest = connection;
    since = *idle;
  }
  if (longest != nullptr) longest->CloseIfIdle();
}

asio::awaitable<void> HttpServer::AcceptLoop() {
  while (acceptor_.is_open()) {
    if (state_.connections.size() >= static_cast<size_t>(state_.options.max_connections)) {
      CloseLongestIdle();
      capacity_.expires_after(kIdleCheck);
      co_await capacity_.async_wait(kAwait);
      continue;
    }
    auto [error, socket] = co_await acceptor_.async_accept(kAwait);
    if (!error) {
      Start(std::move(socket));
    } else if (acceptor_.is_open()) {  // such as no descriptors left: what is open ends some time
      capacity_.expires_after(kAcceptRetry);
      co_await capacity_.async_wait(kAwait);
    }
  }
}

asio::awaitable<void> HttpServer::StopLoop() {
  std::array<char, 8> count = {};
  co_await stop_event_.async_read_some(asio::buffer(count), kAwait);
  BeginDrain();
}

void HttpServer::BeginDrain() {
  state_.draining = true;
  error_code ignored;
  acceptor_.close(ignored);
  capacity_.cancel();
  for (server::OpenConnection* connection : state_.connections) connection->CloseIfIdle();
  if (state_.connections.empty()) return;
  drain_timer_.expires_after(std::chrono::milliseconds(state_.options.drain_ms));
  drain_timer_.async_wait([this](error_code error) {
    if (!error) EndDrain();
  });
}

// Clients are told why their answers end, and have a moment to take that.
void HttpServer::EndDrain() {
  for (server::OpenConnection* connection : state_.connections) connection->CutShort();
  drain_timer_.expires_after(kLastWords);
  drain_timer_.async_wait([this](error_code error) {
    if (error) return;
    for (server::OpenConnection* connection : state_.connections) connection->Abort();
  });
}

Status HttpServer::Run() {
  if (!acceptor_.is_open()) return FailedPrecondition("server: it was stopped before");
  asio::co_spawn(state_.io, AcceptLoop(), asio::detached);
  asio::co_spawn(state_.io, StopLoop(), asio::detached);
  state_.io.run();  // until nothing is left to wait for
  return OkStatus();
}

}  // namespace

Status Server::Check(const ServerOptions& options) {
  if (Status s = ValidateOptions(options); !s.ok()) return s;
  const auto keys = server::ApiKeys::Create(options.api_keys);
  if (!keys.ok()) return keys.status();
  const auto address = AddressOf(options.host);
  if (!address.ok()) return address.status();
  if (IsLoopback(*address) || !keys->open()) return OkStatus();
  return InvalidArgument(
      "server: host " + options.host +
      " can be reached from other machines and needs an API key; without one only a loopback "
      "address such as 127.0.0.1 is served");
}

Result<std::unique_ptr<Server>> Server::Create(ServingEngine& engine, const ServerOptions& options) {
  if (Status s = Check(options); !s.ok()) return s;
  const auto address = AddressOf(options.host);
  if (!address.ok()) return address.status();
  auto made =
      std::make_unique<HttpServer>(engine, options, server::ApiKeys::Create(options.api_keys).value());
  if (Status s = made->Listen(*address); !s.ok()) return s;
  made->SetModel(engine.engine().info(), options.model_name);
  return std::unique_ptr<Server>(std::move(made));
}

}  // namespace holdfast
