// What a server's connections share. All of it is touched by the server's one I/O thread alone; ServingEngine
// is thread-safe.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "holdfast/server.h"
#include "server/api_keys.h"
#include "server/endpoints.h"
#include "server/figures.h"

namespace holdfast::server {

// A connection as the server sees it.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  virtual void CloseIfIdle() = 0;  // no request of it has begun
  // Since when it has been idle; none while a request is read or answered.
  virtual std::optional<std::chrono::steady_clock::time_point> idle_since() const = 0;
  virtual void CutShort() = 0;  // an answer that is not through ends with an error, which is still sent
  virtual void Abort() = 0;     // whatever it does, it ends soon
};

struct ServerState {
  ServerState(ServingEngine& engine, ServerOptions server_options, ApiKeys api_keys)
      : serving(engine), options(std::move(server_options)), keys(std::move(api_keys)) {}

  ServingEngine& serving;
  const ServerOptions options;
  const ApiKeys keys;
  ServedModel model;
  HttpFigures http;
  bool draining = false;
  std::set<OpenConnection*> connections;
  boost::asio::io_context io{1};
  // Large bodies are parsed and tokenised there, so that those who are being answered do not wait for it. One
  // thread: the others are the model's.
  boost::asio::thread_pool workers{1};
};

// Serves the socket until either side closes it. The state must outlive the coroutine.
boost::asio::awaitable<void> ServeConnection(boost::asio::ip::tcp::socket socket, ServerState& state);

}  // namespace holdfast::server
