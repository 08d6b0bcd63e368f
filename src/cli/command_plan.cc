// plan: what a model's cache takes, layer by layer, and the longest context that a budget holds; no weight is
// loaded.
#include <cstdio>

#include "cli/auto_cache.h"
#include "cli/commands.h"
#include "cli/layer_figures.h"
#include "cli/size.h"
#include "holdfast/plan.h"

namespace holdfast::cli {
namespace {

struct Plan {
  CommonOptions common;
  std::string config, budget;
};

Result<Json> PlanJson(const ModelPlan& plan) {
  auto layers = LayersJson(plan.layers, plan.cache);
  if (!layers.ok()) return layers.status();
  auto bytes = PlanCache(plan.cache, plan.cache.max_context);
  if (!bytes.ok()) return bytes.status();
  Json json;
  json["architecture"] = plan.info.architecture;
  json["name"] = plan.info.name;
  json["path"] = plan.info.path;
  json["context_length"] = plan.info.context_length;
  json["context"] = plan.cache.max_context;
  json["bytes_per_token"] = BytesPerToken(*layers);
  json["row_bytes"] = bytes->row_bytes;
  json["metadata_bytes"] = bytes->metadata_bytes;
  json["total_bytes"] = bytes->total_bytes();
  json["layers"] = std::move(*layers);
  return json;
}

// Where the budget holds more than the context asked for, that is the answer.
Status AddBudget(const CacheConfig& config, int64_t budget_bytes, Json& json) {
  auto largest = LargestContext(config, budget_bytes);
  if (!largest.ok()) return largest.status();
  CacheConfig full = config;
  full.max_context = *largest;
  int64_t bytes = 0;
  if (*largest > 0) {
    auto plan = PlanCache(full, *largest);
    if (!plan.ok()) return plan.status();
    bytes = plan->total_bytes();
  }
  json["budget_bytes"] = budget_bytes;
  json["largest_context"] = *largest;
  json["largest_context_bytes"] = bytes;
  json["limited_by"] = *largest == config.max_context ? "context" : "budget";
  return OkStatus();
}

void Print(const Json& json) {
  PrintLayers(json["layers"]);
  std::printf("\n%lld bytes a token; %s at context %lld (%lld bytes of rows, %lld of tables)\n",
              static_cast<long long>(json["bytes_per_token"].get<int64_t>()),
              SizeText(json["total_bytes"].get<int64_t>()).c_str(),
              static_cast<long long>(json["context"].get<int64_t>()),
              static_cast<long long>(json["row_bytes"].get<int64_t>()),
              static_cast<long long>(json["metadata_bytes"].get<int64_t>()));
  if (!json.contains("budget_bytes")) return;
  std::printf("a budget of %s holds a context of %lld (%s), limited by the %s\n",
              SizeText(json["budget_bytes"].get<int64_t>()).c_str(),
              static_cast<long long>(json["largest_context"].get<int64_t>()),
              SizeText(json["largest_context_bytes"].get<int64_t>()).c_str(),
              json["limited_by"].get<std::string>().c_str());
}

Status Run(const Plan& p) {
  const auto cache = p.common.Cache();
  if (!cache.ok()) return cache.status();
  if (IsAutoCache(p.common.kv_cache)) {
    return WrongCommandLine("--kv-cache " + p.common.kv_cache + " needs the model's weights: use inspect");
  }
  if (p.common.model.empty() == p.config.empty())
    return WrongCommandLine("one of -m MODEL or --config FILE is required");
  int64_t budget_bytes = 0;
  if (!p.budget.empty()) {
    auto parsed = ParseSize("--kv-cache-budget", p.budget);
    if (!parsed.ok()) return parsed.status();
    budget_bytes = *parsed;
  }
  auto plan = PlanModel(p.config.empty() ? p.common.model : p.config, *cache);
  if (!plan.ok()) return plan.status();
  auto json = PlanJson(*plan);
  if (!json.ok()) return json.status();
  if (!p.budget.empty()) {
    if (Status s = AddBudget(plan->cache, budget_bytes, *json); !s.ok()) return s;
  }
  if (p.common.json) {
    std::printf("%s\n", ToJsonText(*json).c_str());
  } else {
    Print(*json);
  }
  return OkStatus();
}

}  // namespace

void AddPlan(CLI::App& program, Action& action) {
  auto p = std::make_shared<Plan>();
  CLI::App* app =
      program.add_subcommand("plan", "bytes of a model's cache and the context that a budget holds");
  auto* model = app->add_option("-m,--model", p->common.model,
                                "a GGUF file, a Hugging Face folder, or a name that `holdfast models` lists");
  app->add_option("--config", p->config, "a config.json alone")->excludes(model);
  // Scripts plan with the options that they generate with; no byte depends on these two.
  app->add_option("-t,--threads", p->common.threads, "threads; 0: one a core; what is planned is the same")
      ->check(CLI::Range(0, 256));
  p->common.AddBatch(*app);
  p->common.AddCache(*app);
  p->common.AddJson(*app);
  app->add_option("--kv-cache-budget", p->budget,
                  "bytes, or 512MiB, 2G: prints the largest context that fits");
  app->callback([p, &action] { action = [p] { return Run(*p); }; });
}

}  // namespace holdfast::cli
