// serve: OpenAI's API over HTTP, many requests on one model and one budget.
#include <signal.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/commands.h"
#include "cli/descriptor_limit.h"
#include "cli/size.h"
#include "holdfast/server.h"

namespace holdfast::cli {
namespace {

struct Serve {
  CommonOptions common;
  ServerOptions server;
  ServingOptions serving;
  std::string budget, key_file, cascade = "auto", sharing = "on", alias;
  double prefix_ttl_s = 0, drain_s = 30;
};

std::atomic<Server*> running{nullptr};

void StopRunning(int) {
  if (Server* server = running.load(); server != nullptr) server->Stop();
}

// While it lives, SIGINT and SIGTERM let the server end what runs; a second signal ends the program at once.
class StopOnSignal {
 public:
  explicit StopOnSignal(Server& server) {
    running.store(&server);
    struct sigaction action = {};
    action.sa_handler = StopRunning;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
  }
  ~StopOnSignal() {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    running.store(nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
};

// Bytes, or `2048tokens`.
Status ParseBudget(const std::string& text, ServingOptions* options) {
  constexpr std::string_view kTokens = "tokens";
  if (text.empty()) return OkStatus();
  if (text.ends_with(kTokens)) {
    const auto tokens = ParseNumbers("--kv-cache-budget", text.substr(0, text.size() - kTokens.size()));
    if (!tokens.ok() || tokens->size() != 1 || tokens->front() < 1)
      return WrongCommandLine("--kv-cache-budget " + text + ": wanted a number of tokens, at least 1");
    options->budget_tokens = tokens->front();
    return OkStatus();
  }
  const auto bytes = ParseSize("--kv-cache-budget", text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes < 1) return WrongCommandLine("--kv-cache-budget " + text + ": must be at least 1 byte");
  options->budget_bytes = *bytes;
  return OkStatus();
}

Status AddKeysOfFile(const std::string& path, std::vector<std::string>* keys) {
  if (path.empty()) return OkStatus();
  const auto content = ReadFile(path);
  if (!content.ok()) return content.status();
  const size_t before = keys->size();
  std::string key;
  for (const char c : *content + "\n") {
    if (c != '\n' && c != '\r') {
      key += c;
    } else if (!key.empty()) {
      keys->push_back(std::exchange(key, std::string()));
    }
  }
  if (keys->size() == before) return InvalidArgument("serve: " + path + " has no key, one a line is wanted");
  return OkStatus();
}

Status ParseOnOff(const char* option, const std::string& text, const char* on, const char* off, bool* value) {
  if (text != on && text != off)
    return WrongCommandLine(std::string(option) + " " + text + ": wanted " + on + " or " + off);
  *value = text == on;
  return OkStatus();
}

Status Resolve(Serve* s) {
  if (Status status = ParseBudget(s->budget, &s->serving); !status.ok()) return status;
  bool cascade = true;
  if (Status status = ParseOnOff("--cascade", s->cascade, "auto", "off", &cascade); !status.ok())
    return status;
  s->serving.cascade = cascade ? CascadeMode::kAuto : CascadeMode::kOff;
  if (Status status = ParseOnOff("--kv-prefix-sharing", s->sharing, "on", "off", &s->serving.share_prefixes);
      !status.ok())
    return status;
  s->serving.prefix_ttl_ms = std::llround(s->prefix_ttl_s * 1000.0);
  s->serving.step_tokens = s->common.batch_tokens;
  s->server.drain_ms = std::llround(s->drain_s * 1000.0);
  s->server.model_name =
      s->alias.empty() ? s->common.model.substr(s->common.model.find_last_of('/') + 1) : s->alias;
  if (Status status = AddKeysOfFile(s->key_file, &s->server.api_keys); !status.ok()) return status;
  const Status status = Server::Check(s->server);  // now, not when the model has been loaded
  return status.code() == StatusCode::kInvalidArgument ? WrongCommandLine(status.message()) : status;
}

void PrintFigures(const ServingEngine& serving, const Server& server, bool json) {
  const ServingMetrics metrics = serving.metrics();
  const PoolSnapshot pool = serving.pool();
  int64_t finished = 0;
  for (const int64_t count : metrics.requests_finished) finished += count;
  if (!json) {
    std::fprintf(stderr, "served %lld requests: %lld prompt tokens (%lld reused), %lld generated\n",
                 static_cast<long long>(finished), static_cast<long long>(metrics.prompt_tokens),
                 static_cast<long long>(pool.reused_tokens),
                 static_cast<long long>(metrics.generated_tokens));
    return;
  }
  Json figures;
  figures["url"] = server.url();
  figures["requests"] = finished;
  figures["refused"] = metrics.requests_refused;
  figures["prompt_tokens"] = metrics.prompt_tokens;
  figures["reused_tokens"] = pool.reused_tokens;
  figures["generated_tokens"] = metrics.generated_tokens;
  std::printf("%s\n", ToJsonText(figures).c_str());
}

Status Run(Serve s) {
  const auto asked = s.common.Cache();
  if (!asked.ok()) return asked.status();
  if (asked->storage != StorageId::kPaged)
    return WrongCommandLine("--kv-storage " + s.common.storage + ": requests share blocks, must be paged");
  if (Status status = Resolve(&s); !status.ok()) return status;
  RaiseDescriptorLimit();
  auto engine = s.common.Load();
  if (!engine.ok()) return engine.status();
  auto cache = s.common.CacheFor(**engine);
  if (!cache.ok()) return cache.status();
  s.serving.cache = std::move(*cache);
  auto serving = ServingEngine::Create(**engine, s.serving);
  if (!serving.ok()) return serving.status();
  auto server = Server::Create(**serving, s.server);
  if (!server.ok()) return server.status();
  const StopOnSignal stop(**server);
  std::fprintf(stderr, "listening on %s\n", (*server)->url().c_str());
  std::fflush(stderr);
  const Status status = (*server)->Run();
  if (status.ok()) PrintFigures(**serving, **server, s.common.json);
  return status;
}

void AddServerOptions(CLI::App& app, Serve& s) {
  const auto count = CLI::Range(int64_t{0}, int64_t{1} << 40);
  app.add_option("--host", s.server.host,
                 "address to listen on; another than a loopback one needs an API key")
      ->capture_default_str();
  app.add_option("--port", s.server.port, "port; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--parallel", s.serving.max_running, "requests that run at a time")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-queue", s.serving.max_queued,
                 "requests that wait beside those that run; more are refused with 429")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--kv-cache-budget", s.budget,
                 "ceiling on the cache: 512MiB, or 4096tokens of running requests; default: what --parallel "
                 "requests of the "
                 "full context take");
  app.add_option("--kv-prefix-sharing", s.sharing, "on: requests reuse each other's prefixes; off")
      ->capture_default_str();
  app.add_option("--kv-prefix-ttl", s.prefix_ttl_s,
                 "seconds after its last use that an idle prefix is dropped; 0: never")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--cascade", s.cascade, "score blocks that requests share once: auto or off")
      ->capture_default_str();
  app.add_option("--api-key", s.server.api_keys,
                 "a key that clients must send, each a tenant of its own; may be given several times, the "
                 "first is the "
                 "operator's")
      ->allow_extra_args(false);
  app.add_option("--api-key-file", s.key_file, "a file of such keys, one a line");
  app.add_option("--alias", s.alias, "the model's name in the API; default: the last part of -m");
  app.add_option("--max-connections", s.server.max_connections, "connections at a time; more wait")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-body", s.server.max_body_bytes, "bytes of a request's body")
      ->check(count)
      ->capture_default_str();
  app.add_option("--drain", s.drain_s, "seconds that running requests have after SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
}

}  // namespace

void AddServe(CLI::App& program, Action& action) {
  auto s = std::make_shared<Serve>();
  CLI::App* app = program.add_subcommand("serve", "answer OpenAI's API over HTTP");
  s->common.storage = "paged";
  s->common.AddModel(*app);
  s->common.AddBatch(*app);
  s->common.AddCache(*app);
  s->common.AddJson(*app);
  AddServerOptions(*app, *s);
  app->callback([s, &action] { action = [s] { return Run(*s); }; });
}

}  // namespace holdfast::cli
