#include "holdfast/load_generator.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cmath>
#include <deque>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "server/load_answer.h"
#include "server/load_client.h"
#include "server/load_figures.h"
#include "server/load_prompts.h"

namespace holdfast::load {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

int64_t NsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

std::string TextOf(const nlohmann::json& body) {
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One run: all coroutines are of the thread that calls Run.
class LoadRun {
 public:
  LoadRun(const LoadOptions& options, HttpTarget target, std::vector<TraceRequest> trace)
      : options_(options),
        target_(std::move(target)),
        trace_(std::move(trace)),
        total_(trace_.empty() ? options.requests : static_cast<int64_t>(trace_.size())),
        is_open_loop_(!trace_.empty() || options.rate_per_s > 0) {}

  Result<LoadFigures> Run() {
    asio::ip::tcp::resolver resolver(io_);
    boost::system::error_code error;
    endpoints_ = resolver.resolve(target_.host, target_.port, error);
    if (error) return IoError("bench serve: " + options_.url + ": " + error.message());
    Status ready = OkStatus();
    Spawn(Prepare(ready));
    io_.run();
    if (!bug_.ok()) return bug_;
    if (!ready.ok()) return Status(ready.code(), "bench serve: " + options_.url + ": " + ready.message());
    io_.restart();
    start_ = Clock::now();
    if (is_open_loop_) {
      Spawn(Arrivals());
    } else {
      for (int64_t i = 0; i < std::min<int64_t>(options_.clients, total_); ++i) Spawn(ClosedLoopClient());
    }
    io_.run();
    if (!bug_.ok()) return bug_;
    return collected_.Figures();
  }

 private:
  // What a coroutine throws (memory ends) must not leave the library.
  void Spawn(asio::awaitable<void> work) {
    asio::co_spawn(io_, std::move(work), [this](std::exception_ptr thrown) {
      if (!thrown) return;
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& e) {
        bug_ = Internal(std::string("bench serve: ") + e.what());
      }
      io_.stop();
    });
  }

  std::unique_ptr<HttpClient> NewClient() {
    return std::make_unique<HttpClient>(io_, endpoints_, target_, options_.api_key, options_.timeout_ms);
  }

  // The model's name, and how many tokens its tokenizer makes of a word.
  asio::awaitable<void> Prepare(Status& status) {
    const std::unique_ptr<HttpClient> client = NewClient();
    model_ = options_.model;
    if (model_.empty()) {
      HttpRequest list{.is_post = false, .path = "/v1/models", .body = {}, .on_piece = {}};
      Result<HttpAnswer> models = co_await client->Send(std::move(list));
      if (!models.ok()) {
        status = models.status();
        co_return;
      }
      model_ = FirstModel(*models);
      if (model_.empty()) {
        status = IoError("/v1/models: status " + std::to_string(models->status) +
                         " and no model, name one: " + ErrorText(models->body));
        co_return;
      }
    }
    const std::optional<int64_t> once = co_await CountTokens(*client, kCalibrationWords);
    const std::optional<int64_t> twice = co_await CountTokens(*client, 2 * kCalibrationWords);
    if (!once || !twice || *twice <= *once) co_return;
    // The difference is free of what a tokenizer adds to every text.
    prompts_ = PromptMaker(options_.seed, static_cast<double>(*twice - *once) / kCalibrationWords);
  }

  static std::string FirstModel(const HttpAnswer& answer) {
    const auto json = nlohmann::json::parse(answer.body, nullptr, false);
    if (answer.status != 200 || !json.is_object()) return {};
    const auto data = json.find("data");
    if (data == json.end() || !data->is_array() || data->empty() || !data->front().is_object()) return {};
    const auto id = data->front().find("id");
    return id != data->front().end() && id->is_string() ? id->get<std::string>() : std::string();
  }

  // Nothing where the server has no /tokenize. llama.cpp calls the text `content`, vLLM `prompt`.
  asio::awaitable<std::optional<int64_t>> CountTokens(HttpClient& client, int64_t words) {
    for (const char* field : {"content", "prompt"}) {
      const nlohmann::json body{{"model", model_}, {field, CalibrationText(words)}};
      HttpRequest request{.is_post = true, .path = "/tokenize", .body = TextOf(body), .on_piece = {}};
      const Result<HttpAnswer> answer = co_await client.Send(std::move(request));
      if (!answer.ok() || answer->status != 200) continue;
      const auto json = nlohmann::json::parse(answer->body, nullptr, false);
      if (!json.is_object()) continue;
      const auto tokens = json.find("tokens");
      if (tokens != json.end() && tokens->is_array()) co_return static_cast<int64_t>(tokens->size());
    }
    co_return std::nullopt;
  }

  asio::awaitable<void> ClosedLoopClient() {
    const std::unique_ptr<HttpClient> client = NewClient();
    while (next_ < total_) {
      const int64_t index = next_++;
      co_await One(*client, index, NsSince(start_));
    }
  }

  asio::awaitable<void> Arrivals() {
    const std::vector<int64_t> times =
        trace_.empty() ? PoissonArrivals(options_.seed, total_, options_.rate_per_s) : TraceArrivals();
    asio::steady_timer timer(io_);
    for (int64_t i = 0; i < total_; ++i) {
      const int64_t at_ns = times[static_cast<size_t>(i)];
      timer.expires_at(start_ + std::chrono::nanoseconds(at_ns));
      co_await timer.async_wait(asio::use_awaitable);
      Spawn(OpenLoopRequest(i, at_ns));
    }
  }

  std::vector<int64_t> TraceArrivals() const {
    std::vector<int64_t> times;
    for (const TraceRequest& request : trace_) {
      const auto after_ms = static_cast<double>(request.timestamp_ms - trace_.front().timestamp_ms);
      times.push_back(std::llround(after_ms * 1e6 / options_.trace_speed));
    }
    return times;
  }

  asio::awaitable<void> OpenLoopRequest(int64_t index, int64_t arrived_ns) {
    std::unique_ptr<HttpClient> client;
    if (idle_.empty()) {
      client = NewClient();
    } else {
      client = std::move(idle_.back());
      idle_.pop_back();
    }
    co_await One(*client, index, arrived_ns);
    idle_.push_back(std::move(client));
  }

  std::string BodyOf(int64_t index) const {
    std::string prompt;
    int64_t max_tokens = options_.output_tokens;
    if (trace_.empty()) {
      prompt = prompts_.Prompt(index, options_.prompt_tokens, options_.shared_tokens);
    } else {
      const TraceRequest& request = trace_[static_cast<size_t>(index)];
      prompt = prompts_.Prompt(request, options_.max_prompt_tokens);
      max_tokens = std::max<int64_t>(1, request.output_tokens);
      if (options_.max_output_tokens > 0) max_tokens = std::min(max_tokens, options_.max_output_tokens);
    }
    const nlohmann::json body{{"model", model_},
                              {"prompt", std::move(prompt)},
                              {"max_tokens", max_tokens},
                              {"temperature", 0},
                              {"ignore_eos", true},
                              {"stream", true},
                              {"stream_options", {{"include_usage", true}}}};
    return TextOf(body);
  }

  asio::awaitable<void> One(HttpClient& client, int64_t index, int64_t arrived_ns) {
    AnswerReader reader;
    HttpRequest request{.is_post = true, .path = "/v1/completions", .body = BodyOf(index), .on_piece = {}};
    request.on_piece = [&](std::string_view piece) { return reader.Feed(piece, NsSince(start_)); };
    const Result<HttpAnswer> answer = co_await client.Send(std::move(request));
    const int64_t ended_ns = NsSince(start_);
    if (answer.ok() && answer->status != 200) {
      collected_.AddError("status " + std::to_string(answer->status) + ": " + ErrorText(answer->body),
                          ended_ns);
    } else if (const Result<AnswerFigures> figures = reader.Finish(); figures.ok()) {
      collected_.Add(*figures, arrived_ns, ended_ns);
    } else {
      collected_.AddError(answer.ok() ? figures.status().message() : answer.status().message(), ended_ns);
    }
    if (options_.progress) options_.progress(collected_.requests(), total_);
  }

  static constexpr int64_t kCalibrationWords = 256;

  const LoadOptions& options_;
  const HttpTarget target_;
  const std::vector<TraceRequest> trace_;
  const int64_t total_;
  const bool is_open_loop_;
  PromptMaker prompts_{options_.seed, 1.0};
  std::string model_;
  asio::io_context io_{1};
  HttpClient::Endpoints endpoints_;
  Clock::time_point start_;
  int64_t next_ = 0;
  std::deque<std::unique_ptr<HttpClient>> idle_;  // connections of open-loop requests that ended
  LoadCollector collected_;
  Status bug_;
};

Status CheckNumber(const char* name, double value, double lowest, double highest) {
  if (value >= lowest && value <= highest) return OkStatus();
  return InvalidArgument(std::string("bench serve: ") + name + " is " + nlohmann::json(value).dump() +
                         ", must be in [" + nlohmann::json(lowest).dump() + ", " +
                         nlohmann::json(highest).dump() + "]");
}

Status CheckCount(const char* name, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return OkStatus();
  return InvalidArgument(std::string("bench serve: ") + name + " is " + std::to_string(value) +
                         ", must be in [" + std::to_string(lowest) + ", " + std::to_string(highest) + "]");
}

Status CheckOptions(const LoadOptions& o) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const Status checks[] = {
      CheckCount("clients", o.clients, 1, 65536),
      CheckCount("requests", o.requests, o.trace_path.empty() ? 1 : 0, kMost),
      CheckCount("prompt_tokens", o.prompt_tokens, 1, kMost),
      CheckCount("shared_tokens", o.shared_tokens, 0, o.prompt_tokens),
      CheckCount("output_tokens", o.output_tokens, 1, kMost),
      CheckCount("max_prompt_tokens", o.max_prompt_tokens, 0, kMost),
      CheckCount("max_output_tokens", o.max_output_tokens, 0, kMost),
      CheckCount("timeout_ms", o.timeout_ms, 1, int64_t{1} << 40),
      CheckNumber("rate_per_s", o.rate_per_s, 0.0, 1e6),
      CheckNumber("trace_speed", o.trace_speed, 1e-6, 1e9),
  };
  for (const Status& check : checks) {
    if (!check.ok()) return check;
  }
  for (const char c : o.api_key) {
    if (c <= ' ' || c >= 0x7f)
      return InvalidArgument("bench serve: api_key has a character that no header may have");
  }
  if (!o.trace_path.empty() && o.rate_per_s > 0) {
    return InvalidArgument("bench serve: rate_per_s does not go with a trace, which has arrivals of its own");
  }
  return OkStatus();
}

}  // namespace
}  // namespace holdfast::load

namespace holdfast {

Result<LoadFigures> RunLoad(const LoadOptions& options) {
  if (Status status = load::CheckOptions(options); !status.ok()) return status;
  auto target = load::ParseHttpUrl(options.url);
  if (!target.ok()) return InvalidArgument("bench serve: " + target.status().message());
  std::vector<TraceRequest> trace;
  if (!options.trace_path.empty()) {
    auto read = ReadRequestTrace(options.trace_path);
    if (!read.ok()) return read.status();
    trace = std::move(read).value();
    if (options.requests > 0 && static_cast<size_t>(options.requests) < trace.size()) {
      trace.resize(static_cast<size_t>(options.requests));
    }
  }
  return load::LoadRun(options, std::move(target).value(), std::move(trace)).Run();
}

}  // namespace holdfast
