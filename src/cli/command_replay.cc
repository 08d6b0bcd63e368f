// replay: a trace of requests through the prefix index at several budgets: what is reused, what is evicted, what it
// takes; no model runs.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/auto_cache.h"
#include "cli/commands.h"
#include "cli/layer_figures.h"
#include "cli/replay_plot.h"
#include "cli/size.h"
#include "holdfast/output_file.h"
#include "holdfast/plan.h"
#include "holdfast/replay.h"

namespace holdfast::cli {
namespace {

struct Replay {
  CommonOptions common;
  std::string trace, budgets, svg;
  int64_t bytes_per_token = 0;
};

// As given, by the model's cache, or 0: not known.
Result<int64_t> BytesOfToken(const Replay& r) {
  if (r.common.model.empty()) return r.bytes_per_token;
  if (IsAutoCache(r.common.kv_cache)) {
    return WrongCommandLine("--kv-cache " + r.common.kv_cache + " needs the model's weights: use inspect");
  }
  const auto cache = r.common.Cache();
  if (!cache.ok()) return cache.status();
  auto plan = PlanModel(r.common.model, *cache);
  if (!plan.ok()) return plan.status();
  auto layers = LayersJson(plan->layers, plan->cache);
  if (!layers.ok()) return layers.status();
  return BytesPerToken(*layers);
}

// Digits are tokens, what has a unit is bytes.
Result<int64_t> ParseBudget(const std::string& text, int64_t bytes_per_token) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!text.empty() && std::all_of(text.begin(), text.end(), digit)) {
    auto number = ParseNumbers("--budgets", text);
    if (!number.ok()) return number.status();
    return number->front();
  }
  auto bytes = ParseSize("--budgets", text);
  if (!bytes.ok()) return bytes.status();
  if (bytes_per_token == 0) {
    return WrongCommandLine("--budgets " + text + " is in bytes: it needs -m MODEL or --bytes-per-token N");
  }
  if (*bytes < bytes_per_token) {
    return WrongCommandLine("--budgets " + text + ": a token takes " + std::to_string(bytes_per_token) +
                            " bytes, at least one must fit");
  }
  return *bytes / bytes_per_token;
}

Json CellJson(const ReplayCell& cell, int64_t bytes_per_token) {
  Json json{
      {"budget", cell.budget_tokens},    {"hit_tokens", cell.hit_tokens}, {"total_tokens", cell.total_tokens},
      {"hit_rate", cell.hit_rate},       {"evictions", cell.evictions},   {"requests", cell.requests},
      {"peak_tokens", cell.peak_tokens}, {"waste", cell.waste},           {"peak_waste", cell.peak_waste}};
  if (bytes_per_token > 0) json["peak_bytes"] = cell.peak_bytes;
  return json;
}

void Print(const std::vector<ReplayCell>& cells, int64_t bytes_per_token) {
  std::printf("%lld requests, %lld prompt tokens\n", static_cast<long long>(cells[0].requests),
              static_cast<long long>(cells[0].total_tokens));
  std::printf("%14s %14s %8s %10s %14s %12s %7s\n", "budget tokens", "hit tokens", "hit rate", "evictions",
              "most stored", "bytes", "waste");
  for (const ReplayCell& cell : cells) {
    const std::string budget = cell.budget_tokens == 0 ? "no limit" : std::to_string(cell.budget_tokens);
    const std::string bytes = bytes_per_token == 0 ? "-" : SizeText(cell.peak_bytes);
    std::printf("%14s %14lld %6.2f %% %10lld %14lld %12s %5.2f %%\n", budget.c_str(),
                static_cast<long long>(cell.hit_tokens), 100 * cell.hit_rate,
                static_cast<long long>(cell.evictions), static_cast<long long>(cell.peak_tokens),
                bytes.c_str(), 100 * cell.waste);
  }
}

Status Run(const Replay& r) {
  const auto bytes_per_token = BytesOfToken(r);
  if (!bytes_per_token.ok()) return bytes_per_token.status();
  ReplayOptions options{.trace_path = r.trace,
                        .budgets_tokens = {},
                        .block_tokens = r.common.block_tokens,
                        .bytes_per_token = *bytes_per_token};
  for (const std::string& budget : SplitList(r.budgets)) {
    auto tokens = ParseBudget(budget, *bytes_per_token);
    if (!tokens.ok()) return tokens.status();
    options.budgets_tokens.push_back(*tokens);
  }
  if (options.budgets_tokens.empty()) return WrongCommandLine("--budgets: the list is empty");
  std::optional<OutputFile> svg;
  if (!r.svg.empty()) {
    svg.emplace(r.svg);
    if (Status s = svg->Check(); !s.ok()) return s;
  }
  auto cells = ReplayTrace(options);
  if (!cells.ok()) return cells.status();
  if (r.common.json) {
    Json json{{"trace", r.trace}, {"block_tokens", options.block_tokens}, {"cells", Json::array()}};
    if (*bytes_per_token > 0) json["bytes_per_token"] = *bytes_per_token;
    for (const ReplayCell& cell : *cells) json["cells"].push_back(CellJson(cell, *bytes_per_token));
    std::printf("%s\n", ToJsonText(json).c_str());
  } else {
    Print(*cells, *bytes_per_token);
  }
  if (!svg) return OkStatus();
  svg->stream() << ReplayPlot(std::filesystem::path(r.trace).filename().string(), *cells, *bytes_per_token);
  return svg->Finish();
}

}  // namespace

void AddReplay(CLI::App& program, Action& action) {
  auto r = std::make_shared<Replay>();
  CLI::App* app = program.add_subcommand(
      "replay", "a trace of requests through the prefix cache at several budgets, without running a model");
  app->add_option("trace", r->trace, "a trace in Mooncake's format, one JSON object a line")->required();
  app->add_option("--budgets", r->budgets,
                  "tokens that stay stored, 65536,1048576,0 (0: no limit), or sizes as 2GiB")
      ->required();
  auto* model = app->add_option("-m,--model", r->common.model,
                                "the model whose cache a token's bytes are taken from; no weight is loaded");
  app->add_option("--bytes-per-token", r->bytes_per_token, "bytes of a token, without a model")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->excludes(model);
  const std::vector<CLI::Option*> own = app->get_options();
  r->common.AddCache(*app);
  auto* block_tokens = app->get_option("--kv-block-tokens");
  for (CLI::Option* option : app->get_options()) {
    const bool of_model = option != block_tokens && std::find(own.begin(), own.end(), option) == own.end();
    if (of_model) option->needs(model);  // without one they would change nothing
  }
  app->add_option("--block-tokens", r->common.block_tokens, "as --kv-block-tokens")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}))
      ->excludes(block_tokens);
  r->common.AddJson(*app);
  app->add_option("--svg", r->svg, "write a plot of the hit rate against the budget to this file");
  app->callback([r, &action] { action = [r] { return Run(*r); }; });
}

}  // namespace holdfast::cli
