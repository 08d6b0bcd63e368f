// bench serve: a load for any server that speaks OpenAI's completions.
#include <cstdio>
#include <utility>

#include "cli/commands.h"
#include "cli/descriptor_limit.h"
#include "cli/progress.h"
#include "holdfast/load_generator.h"

namespace holdfast::cli {
namespace {

struct BenchServe {
  LoadOptions load;
  bool json = false;
  CLI::Option *requests = nullptr, *output_tokens = nullptr;
};

// Without a value there is no latency: null, never a zero that reads as the best of all.
Json LatencyJson(const LatencyFigures& f) {
  if (f.count == 0) return {{"p50", nullptr}, {"p99", nullptr}, {"max", nullptr}};
  return {{"p50", f.p50}, {"p99", f.p99}, {"max", f.max}};
}

Json LoadJson(const LoadFigures& f) {
  return {{"requests", f.requests},
          {"errors", f.errors},
          {"error_messages", f.error_messages},
          {"seconds", f.seconds},
          {"output_tokens", f.output_tokens},
          {"output_tokens_per_s", f.output_tokens_per_s},
          {"prompt_tokens", f.prompt_tokens},
          {"cached_tokens", f.cached_tokens},
          {"ttft_ms", LatencyJson(f.ttft_ms)},
          {"gap_ms", LatencyJson(f.gap_ms)},
          {"request_ms", LatencyJson(f.request_ms)}};
}

void PrintLatency(const char* name, const LatencyFigures& f) {
  if (f.count == 0) return;
  std::printf("%-12s p50 %9.1f ms  p99 %9.1f ms  max %9.1f ms\n", name, f.p50, f.p99, f.max);
}

void PrintLoad(const LoadFigures& f) {
  std::printf("%lld requests in %.2f s, %lld errors\n", static_cast<long long>(f.requests), f.seconds,
              static_cast<long long>(f.errors));
  std::printf("output       %lld tokens, %.1f tokens/s\n", static_cast<long long>(f.output_tokens),
              f.output_tokens_per_s);
  std::printf("prompts      %lld tokens, %lld of them cached\n", static_cast<long long>(f.prompt_tokens),
              static_cast<long long>(f.cached_tokens));
  PrintLatency("first text", f.ttft_ms);
  PrintLatency("gap", f.gap_ms);
  PrintLatency("request", f.request_ms);
}

Status Run(const BenchServe& b) {
  LoadOptions load = b.load;
  if (!load.trace_path.empty()) {
    if (b.requests->count() == 0) load.requests = 0;
    if (b.output_tokens->count() > 0) load.max_output_tokens = load.output_tokens;
  }
  if (load.shared_tokens > load.prompt_tokens) {
    return WrongCommandLine("--shared-tokens " + std::to_string(load.shared_tokens) +
                            ": must be at most --prompt-tokens, " + std::to_string(load.prompt_tokens));
  }
  RaiseDescriptorLimit();
  Result<LoadFigures> figures = Status(StatusCode::kInternal, "bench serve: not run");
  {
    ProgressBar bar("requests");
    load.progress = [&bar](int64_t done, int64_t total) { bar.Show(done, total); };
    figures = RunLoad(load);
  }
  if (!figures.ok()) return RefusedOption(figures.status(), "bench serve");
  if (b.json) {
    std::printf("%s\n", ToJsonText(LoadJson(*figures)).c_str());
  } else {
    PrintLoad(*figures);
  }
  if (figures->errors < figures->requests) {
    for (const std::string& message : figures->error_messages)
      std::fprintf(stderr, "error: %s\n", message.c_str());
    return OkStatus();
  }
  return IoError("bench serve: all of " + std::to_string(figures->requests) +
                 " requests failed: " + figures->error_messages.front());
}

}  // namespace

void AddBenchServe(CLI::App& bench, Action& action) {
  auto b = std::make_shared<BenchServe>();
  LoadOptions& load = b->load;
  CLI::App* app = bench.add_subcommand(
      "serve", "send streamed completions to a server and time them; any server with OpenAI's endpoints");
  const auto count = [](int64_t lowest) { return CLI::Range(lowest, int64_t{1} << 24); };
  app->add_option("--url", load.url, "http://HOST[:PORT][/PATH]")->required();
  app->add_option("--clients", load.clients,
                  "closed loop: clients that each send one request after the other")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  auto* rate =
      app->add_option("--rate", load.rate_per_s, "open loop: so many requests a second, Poisson arrivals");
  rate->check(CLI::PositiveNumber)->excludes(app->get_option("--clients"));
  b->requests =
      app->add_option("--requests", load.requests, "requests in all; default 24, or all of a trace");
  b->requests->check(count(1));
  auto* prompt_tokens = app->add_option("--prompt-tokens", load.prompt_tokens, "tokens of a prompt, about")
                            ->check(count(1))
                            ->capture_default_str();
  auto* shared_tokens = app->add_option("--shared-tokens", load.shared_tokens,
                                        "of those, the first so many are the same in every prompt")
                            ->check(count(0))
                            ->capture_default_str();
  b->output_tokens =
      app->add_option("-n,--max-tokens", load.output_tokens, "tokens of an answer; of a trace: at most");
  b->output_tokens->check(count(1))->capture_default_str();
  auto* trace =
      app->add_option("--trace", load.trace_path, "lengths, arrivals and shared blocks of a Mooncake trace");
  for (CLI::Option* not_of_a_trace : {rate, app->get_option("--clients"), prompt_tokens, shared_tokens})
    trace->excludes(not_of_a_trace);
  app->add_option("--trace-speed", load.trace_speed, "2: arrivals twice as fast as in the trace")
      ->check(CLI::PositiveNumber)
      ->needs(trace)
      ->capture_default_str();
  app->add_option("--max-prompt-tokens", load.max_prompt_tokens, "cut longer prompts of a trace")
      ->check(count(1))
      ->needs(trace);
  app->add_option("--model", load.model, "default: the first that the server lists");
  app->add_option("--api-key", load.api_key, "sent as a bearer token");
  app->add_option(
         "-s,--seed", load.seed,
         "of prompts and arrivals; a server may remember the prompts of an earlier run with the same one")
      ->capture_default_str();
  app->add_option("--timeout-ms", load.timeout_ms, "a request that hears nothing for so long has failed")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app->add_flag("--json", b->json, "one JSON object on standard output and nothing else there");
  app->callback([b, &action] { action = [b] { return Run(*b); }; });
}

}  // namespace holdfast::cli
