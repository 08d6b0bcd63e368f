// One client's connection: a coroutine that reads a request, answers it, and reads the next.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include "server/answer.h"
#include "server/request_reader.h"
#include "server/response_head.h"
#include "server/server_state.h"
#include "server/socket_stream.h"
#include "server/waker.h"

namespace holdfast::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr size_t kReadAheadLimit = 64 << 10;  // of pipelined requests, besides a head
constexpr size_t kWriteBytes = 64 << 10;      // taken from the engine for one client at a time
// Parsed and tokenised, or written as JSON, on the I/O thread: well under a millisecond.
constexpr size_t kInlineBodyBytes = 16 << 10;
constexpr int kGatherEvents = 256;

// What the head of a request came to.
struct Admitted {
  Route route;
  Tenant tenant;
  bool is_head = false, keep_alive = false, is_http_1_0 = false;
  bool is_framed = true;  // it is known where the request ends
};

// A counter would tell each tenant how much the others ask.
std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 3; ++i) {
    char text[16];
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(random()));
    id += text;
  }
  return id;
}

// What a head may not be, whatever it asks for.
std::optional<ApiError> CheckHead(const RequestReader& reader) {
  const size_t hosts = reader.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && !reader.is_http_1_0())) {
    return ApiError{400, "request: " + std::to_string(hosts) + " Host headers, one is needed", "",
                    "bad_http"};
  }
  const size_t transfers = reader.count(http::field::transfer_encoding);
  const std::string transfer = reader.Header(http::field::transfer_encoding);
  if (transfers > 1 || (transfers == 1 && !boost::beast::iequals(transfer, "chunked"))) {
    return ApiError{
        501, "request body: Transfer-Encoding " + transfer.substr(0, 80) + ", only chunked is supported", "",
        "unsupported"};
  }
  const size_t encodings = reader.count(http::field::content_encoding);
  const std::string encoding = reader.Header(http::field::content_encoding);
  if (encodings > 1 || (!encoding.empty() && !boost::beast::iequals(encoding, "identity"))) {
    return ApiError{415, "request body: Content-Encoding " + encoding.substr(0, 80) + " is not supported", "",
                    "unsupported"};
  }
  return std::nullopt;
}

// Whether a page of another site may have made a browser ask this, with no key or with one that the browser keeps.
std::optional<ApiError> CheckOrigin(const RequestReader& reader, bool needs_no_key) {
  if (!needs_no_key && !IsSentByBrowsers(reader.Header(http::field::authorization))) return std::nullopt;
  const std::string origin = reader.Header(http::field::origin);
  const std::string target = reader.target();
  const auto authority = SplitTarget(target).authority;
  const std::string host = authority.has_value() ? std::string(*authority) : reader.Header(http::field::host);
  // A key is kept for the name that it was given to: another name of this server has none.
  const std::string from = !IsOwnOrigin(origin, host)           ? "Origin " + origin.substr(0, 80)
                           : needs_no_key && !IsLocalHost(host) ? "Host " + host.substr(0, 80)
                                                                : "";
  if (from.empty()) return std::nullopt;
  return ApiError{403,
                  "request: from another site's page (" + from + "), needs an API key" +
                      (needs_no_key ? "" : " as `Authorization: Bearer KEY`"),
                  "", "cross_origin"};
}

class Connection : public OpenConnection {
 public:
  Connection(asio::ip::tcp::socket socket, ServerState& state)
      : state_(state),
        stream_(std::make_shared<SocketStream>(
            std::move(socket), static_cast<size_t>(state.options.max_header_bytes) + kReadAheadLimit,
            state.options.write_timeout_ms)) {
    state_.connections.insert(this);
    ++state_.http.connections;
    ++state_.http.connections_total;
  }
  ~Connection() override {
    stream_->Abort();  // handlers in flight let go of the socket
    state_.connections.erase(this);
    --state_.http.connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  asio::awaitable<void> Serve() {
    bool more = true;
    while (more) more = co_await ServeOne();
    if (!stream_->left() && !stream_->aborted()) co_await stream_->Close();
  }

  void CloseIfIdle() override {
    if (idle_since_.has_value()) stream_->Abort();
  }
  std::optional<std::chrono::steady_clock::time_point> idle_since() const override { return idle_since_; }
  void CutShort() override {
    cut_short_ = true;
    stream_->Wake();
  }
  void Abort() override { stream_->Abort(); }

 private:
  asio::awaitable<bool> ServeOne();
  std::optional<HttpAnswer> Refuse(const RequestReader& reader, Admitted* how) const;
  asio::awaitable<bool> Send(HttpAnswer answer, Admitted how);
  asio::awaitable<bool> SendError(ApiError error, Admitted how);
  asio::awaitable<bool> Generate(std::string body, Admitted how);
  asio::awaitable<bool> Respond(Answer& answer, Admitted how);
  asio::awaitable<bool> Stream(Answer& answer, Admitted how);
  template <typename T>
  asio::awaitable<T> Work(size_t body_bytes, std::function<T()> work);
  AnswerHead NewHead(bool is_chat);

  ServerState& state_;
  std::shared_ptr<SocketStream> stream_;
  std::optional<std::chrono::steady_clock::time_point> idle_since_ = std::chrono::steady_clock::now();
  bool cut_short_ = false;
};

// Reads a request and answers it. false: the connection is to be closed.
asio::awaitable<bool> Connection::ServeOne() {
  RequestReader reader(stream_, state_);
  idle_since_ = std::chrono::steady_clock::now();
  const bool begun = co_await reader.WaitForFirstByte();
  if (!begun) co_return false;
  idle_since_.reset();
  const Admitted closing;
  auto outcome = co_await reader.ReadHead();
  if (outcome == RequestReader::Outcome::kClosed) co_return false;
  if (outcome == RequestReader::Outcome::kBad) {
    co_await SendError(reader.error(), closing);
    co_return false;
  }
  Admitted how;
  auto refused = Refuse(reader, &how);
  if (refused.has_value()) {
    stream_->Disarm();
    how.keep_alive = how.is_framed && how.keep_alive && !reader.has_unread_body();
    co_return co_await Send(std::move(*refused), how);
  }
  outcome = co_await reader.ReadBody();
  if (outcome == RequestReader::Outcome::kClosed) co_return false;
  if (outcome == RequestReader::Outcome::kBad) {
    co_await SendError(reader.error(), closing);
    co_return false;
  }
  std::string body = reader.TakeBody();
  if (how.route.endpoint == Endpoint::kCompletions || how.route.endpoint == Endpoint::kChat) {
    co_return co_await Generate(std::move(body), how);
  }
  const Endpoint endpoint = how.route.endpoint;
  HttpAnswer answer;
  if (endpoint == Endpoint::kTokenize || endpoint == Endpoint::kDetokenize) {
    std::function<HttpAnswer()> tokenise = [&serving = state_.serving, endpoint, &body] {
      return AnswerTokenizing(endpoint, body, serving);
    };
    answer = co_await Work<HttpAnswer>(body.size(), std::move(tokenise));
  } else {
    answer = AnswerEndpoint(how.route, state_.serving, state_.model, state_.http, state_.draining);
  }
  co_return co_await Send(std::move(answer), how);
}

// Decides by the head alone whether a request is let in; if so, there is no answer yet.
std::optional<HttpAnswer> Connection::Refuse(const RequestReader& reader, Admitted* how) const {
  how->is_head = reader.method() == "HEAD";
  how->is_http_1_0 = reader.is_http_1_0();
  // One that knew nothing of codings may have been between (RFC 9112, section 6.1).
  how->is_framed = !how->is_http_1_0 || reader.count(http::field::transfer_encoding) == 0;
  how->keep_alive = how->is_framed && reader.keep_alive() && !state_.draining;
  if (const auto error = CheckHead(reader); error.has_value()) {
    how->is_framed = false;
    return ErrorAnswer(*error);
  }
  auto found = FindRoute(reader.method(), reader.target());
  if (auto* none = std::get_if<NoRoute>(&found); none != nullptr) {
    HttpAnswer answer = ErrorAnswer(none->error);
    if (!none->allow.empty()) answer.headers.emplace_back("Allow", none->allow);
    return answer;
  }
  how->route = std::move(std::get<Route>(found));
  const Access access = how->route.access;
  if (access == Access::kAnyone) return std::nullopt;
  if (const auto error = CheckOrigin(reader, state_.keys.open())) return ErrorAnswer(*error);
  const auto tenant = state_.keys.Find(reader.Header(http::field::authorization));
  if (!tenant.has_value()) {
    HttpAnswer answer = ErrorAnswer(
        {401, "request: a valid API key is needed, as `Authorization: Bearer KEY`", "", "invalid_api_key"});
    const bool is_for_people = access == Access::kOperator;  // a browser asks for the key then
    answer.headers.emplace_back("WWW-Authenticate", is_for_people ? "Basic realm=\"holdfast\"" : "Bearer");
    return answer;
  }
  if (access == Access::kOperator && !tenant->is_operator) {
    return ErrorAnswer(
        {403, "request: only the operator's API key (the first) may see this", "", "operator_only"});
  }
  how->tenant = *tenant;
  return std::nullopt;
}

asio::awaitable<bool> Connection::Send(HttpAnswer answer, Admitted how) {
  ++state_.http.responses[answer.status];
  how.keep_alive = how.keep_alive && !state_.draining;
  std::string bytes = ResponseHead(answer, {.http_1_0 = how.is_http_1_0, .keep_alive = how.keep_alive});
  if (!how.is_head) bytes += answer.body;
  answer.body.clear();
  const bool written = co_await stream_->Write(bytes);
  how.keep_alive = how.keep_alive && written;
  co_return how.keep_alive;
}

asio::awaitable<bool> Connection::SendError(ApiError error, Admitted how) {
  HttpAnswer answer = ErrorAnswer(error);
  co_return co_await Send(std::move(answer), std::move(how));
}

AnswerHead Connection::NewHead(bool is_chat) {
  AnswerHead head;
  head.id = (is_chat ? "chatcmpl-" : "cmpl-") + RandomId();
  head.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  head.model = state_.model.name;
  head.is_chat = is_chat;
  return head;
}

// Does what takes time in proportion to a body: here where that is little, else on the workers' thread.
template <typename T>
asio::awaitable<T> Connection::Work(size_t body_bytes, std::function<T()> work) {
  if (body_bytes <= kInlineBodyBytes) co_return work();
  auto job = [](std::function<T()> task) -> asio::awaitable<T> { co_return task(); }(std::move(work));
  co_return co_await asio::co_spawn(state_.workers, std::move(job), asio::use_awaitable);
}

ApiError StoppedError() {
  return ErrorOf(FailedPrecondition("server: it is being stopped"));
}

asio::awaitable<bool> Connection::Generate(std::string body, Admitted how) {
  if (state_.draining) {
    co_return co_await SendError(StoppedError(), how);
  }
  using Prepared = std::variant<PreparedRequest, ApiError>;
  const bool is_chat = how.route.endpoint == Endpoint::kChat;
  std::function<Prepared()> prepare = [&engine = state_.serving.engine(), is_chat, &body] {
    return PrepareRequest(engine, is_chat, body);
  };
  auto prepared = co_await Work<Prepared>(body.size(), std::move(prepare));
  std::string().swap(body);
  if (auto* error = std::get_if<ApiError>(&prepared); error != nullptr) {
    co_return co_await SendError(std::move(*error), how);
  }
  auto waker =
      std::make_shared<Waker>(stream_->socket().get_executor(), [stream = stream_] { stream->Wake(); });
  const WakerScope scope(waker);
  auto begun = Answer::Begin(state_.serving, std::move(std::get<PreparedRequest>(prepared)),
                             how.tenant.name_space, NewHead(is_chat), [waker] { waker->Notify(); });
  if (auto* error = std::get_if<ApiError>(&begun); error != nullptr) {
    co_return co_await SendError(std::move(*error), how);
  }
  auto answer = std::move(std::get<std::unique_ptr<Answer>>(begun));
  stream_->StartWatching();
  const bool keep = co_await Respond(*answer, how);
  if (stream_->left()) ++state_.http.clients_left;
  answer.reset();  // cancels what still runs, before anything is waited for
  co_await stream_->StopWatching();
  co_return keep && !stream_->left() && !stream_->aborted();
}

asio::awaitable<bool> Connection::Respond(Answer& answer, Admitted how) {
  if (answer.is_stream()) co_return co_await Stream(answer, how);
  while (!answer.done()) {
    if (stream_->left() || stream_->aborted()) co_return false;
    if (cut_short_) answer.Fail(StoppedError());
    if (!answer.Gather(kGatherEvents) && !answer.done()) {
      co_await stream_->WaitForWake();
    } else {
      co_await asio::post(stream_->socket().get_executor(), asio::use_awaitable);  // others have their turn
    }
  }
  if (answer.error().has_value()) co_return co_await SendError(*answer.error(), how);
  std::function<std::string()> write = [&answer] { return answer.Body(); };
  HttpAnswer body;
  body.body = co_await Work<std::string>(answer.body_bytes(), std::move(write));
  co_return co_await Send(std::move(body), how);
}

asio::awaitable<bool> Connection::Stream(Answer& answer, Admitted how) {
  bool begun = false;
  while (true) {
    if (stream_->left() || stream_->aborted()) co_return false;
    if (cut_short_) answer.Fail(StoppedError());
    std::function<std::string()> take = [&answer] { return answer.TakeStream(kWriteBytes); };
    std::string events = co_await Work<std::string>(answer.prompt_bytes(), std::move(take));
    // What fails before anything was sent is an error like any other.
    if (!begun && answer.error().has_value()) co_return co_await SendError(*answer.error(), how);
    if (events.empty() && answer.done()) break;
    if (events.empty()) {
      co_await stream_->WaitForWake();
      continue;
    }
    std::string bytes;
    if (!std::exchange(begun, true)) {
      ++state_.http.responses[200];
      bytes = StreamHead({.http_1_0 = how.is_http_1_0, .keep_alive = how.keep_alive && !state_.draining});
    }
    bytes += how.is_http_1_0 ? events : HttpChunk(events);
    const bool written = co_await stream_->Write(bytes);
    if (!written) co_return false;
  }
  if (how.is_http_1_0) co_return false;  // the end of the connection is the end of the answer
  const bool ended = co_await stream_->Write(kLastHttpChunk);
  const bool keep = ended && how.keep_alive && !state_.draining;
  co_return keep;
}

}  // namespace

asio::awaitable<void> ServeConnection(asio::ip::tcp::socket socket, ServerState& state) {
  Connection connection(std::move(socket), state);
  co_await connection.Serve();
}

}  // namespace holdfast::server
