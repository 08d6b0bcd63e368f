// An OpenAI-compatible HTTP server over a ServingEngine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/serving.h"
#include "holdfast/status.h"

namespace holdfast {

struct ServerOptions {
  std::string host = "127.0.0.1";  // another address than a loopback one needs an API key
  int port = 8080;                 // 0: any free one
  // Each is a tenant: a namespace of its own. The first one is the operator's and alone reads /metrics,
  // /v1/cache and the page. Empty: no keys, one tenant.
  std::vector<std::string> api_keys;
  std::string model_name;  // what /v1/models lists; empty: the model file's own
  int64_t max_body_bytes = int64_t{8} << 20;
  int64_t max_header_bytes = 16 << 10;
  int max_connections = 1024;         // more wait in the kernel's queue
  int64_t read_timeout_ms = 15'000;   // for a whole request, from its first byte on
  int64_t idle_timeout_ms = 60'000;   // between requests of a connection
  int64_t write_timeout_ms = 30'000;  // a client that takes nothing for so long is dropped
  int64_t drain_ms = 30'000;          // Stop() waits so long for running requests, then ends them
};

class Server {
 public:
  // Whether Create would take these options. Error kInvalidArgument: an option, named with its limit; an
  // address that other machines reach without keys.
  static Status Check(const ServerOptions& options);
  // Binds and listens. Errors: those of Check, kIoError (naming address and cause). The engine must outlive
  // the server.
  static Result<std::unique_ptr<Server>> Create(ServingEngine& engine, const ServerOptions& options);
  virtual ~Server() = default;
  virtual int port() const = 0;
  virtual std::string url() const = 0;  // http://HOST:PORT
  // Serves until Stop(): then no new requests, running ones end (drain_ms at most, and a second to say so to
  // those that have not), and it returns. Once; error kFailedPrecondition after that.
  virtual Status Run() = 0;
  virtual void Stop() = 0;  // safe from any thread and from a signal handler
};

}  // namespace holdfast
