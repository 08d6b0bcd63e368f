// inspect: what a model and its cache are made of; logits and per-layer statistics of given tokens.
#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/layer_figures.h"
#include "cli/npy.h"

namespace holdfast::cli {
namespace {

struct Inspect {
  CommonOptions common;
  PromptOptions prompt;
  std::string logits_path, trace_layers;
  int64_t logits_last = 0;
  bool layer_trace = false;
};

Result<Json> ModelJson(const Engine& engine, const CacheConfig& config) {
  const ModelInfo& info = engine.info();
  auto layers = LayersJson(engine.Layers(config), config);
  if (!layers.ok()) return layers.status();
  auto plan = PlanCache(config, config.max_context);
  if (!plan.ok()) return plan.status();
  Json json;
  json["architecture"] = info.architecture;
  json["name"] = info.name;
  json["path"] = info.path;
  json["vocab_size"] = info.vocab_size;
  json["hidden_dim"] = info.hidden_dim;
  json["ffn_dim"] = info.ffn_dim;
  json["q_heads"] = info.q_heads;
  json["kv_heads"] = info.kv_heads;
  json["head_dim"] = info.head_dim;
  json["context_length"] = info.context_length;
  json["weight_bytes"] = info.weight_bytes;
  json["max_context"] = config.max_context;
  json["bytes_per_token"] = BytesPerToken(*layers);
  json["planned_bytes"] = plan->total_bytes();
  json["layers"] = std::move(*layers);
  return json;
}

void PrintModel(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (key != "layers")
      std::printf("%-16s %s\n", key.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  }
  std::printf("\n");
  PrintLayers(json["layers"]);
}

// Statistics of chunks joined into one row a layer.
void Join(LayerTraceRow& all, const LayerTraceRow& chunk) {
  const auto old_tokens = static_cast<double>(all.tokens);
  const auto new_tokens = static_cast<double>(chunk.tokens);
  all.mean = (all.mean * old_tokens + chunk.mean * new_tokens) / (old_tokens + new_tokens);
  all.tokens += chunk.tokens;
  all.min = std::min(all.min, chunk.min);
  all.max = std::max(all.max, chunk.max);
  all.nans += chunk.nans;
  all.infs += chunk.infs;
}

Json TraceJson(const std::vector<LayerTraceRow>& rows) {
  Json json = Json::array();
  for (const LayerTraceRow& r : rows) {
    json.push_back({{"layer", r.layer},
                    {"shape", {r.tokens, r.dim}},
                    {"min", r.min},
                    {"max", r.max},
                    {"mean", r.mean},
                    {"nan", r.nans},
                    {"inf", r.infs}});
  }
  return json;
}

// Runs the tokens; fills `json` with what was asked for.
Status Evaluate(const Inspect& in, Engine& engine, const CacheOptions& cache, Json& json) {
  auto tokens = in.prompt.Tokens(engine, {.add_special = true, .parse_special = true});
  if (!tokens.ok()) return tokens.status();
  std::vector<int64_t> wanted;
  if (!in.trace_layers.empty()) {
    auto layers = ParseNumbers("--trace-layers", in.trace_layers);
    if (!layers.ok()) return layers.status();
    wanted = *layers;
    for (const int64_t l : wanted) {
      if (l < -1 || l >= engine.info().layers) {
        return WrongCommandLine("--trace-layers: " + std::to_string(l) + " must be in [-1, " +
                                std::to_string(engine.info().layers) + ")");
      }
    }
  }
  std::vector<LayerTraceRow> trace;
  LogitsOptions how;
  how.batch_tokens = in.common.batch_tokens;
  how.last_n = in.logits_last;
  if (in.logits_path.empty()) how.last_n = 1;
  if (in.layer_trace) {
    how.trace = [&](const LayerTraceRow& row) {
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), row.layer) == wanted.end()) return;
      const auto seen =
          std::find_if(trace.begin(), trace.end(), [&](const auto& t) { return t.layer == row.layer; });
      seen == trace.end() ? trace.push_back(row) : Join(*seen, row);
    };
  }
  const int64_t vocab = engine.info().vocab_size;
  const auto count = static_cast<int64_t>(tokens->size());
  std::unique_ptr<NpyWriter> writer;
  if (!in.logits_path.empty()) {
    if (in.logits_last > count) {
      return InvalidArgument("inspect: --logits-last is " + std::to_string(in.logits_last) + ", there are " +
                             std::to_string(count) + " tokens");
    }
    auto created = NpyWriter::Create(in.logits_path, in.logits_last == 0 ? count : in.logits_last, vocab);
    if (!created.ok()) return created.status();
    writer = std::move(*created);
  }
  Status written;
  Status s = engine.Logits(*tokens, cache, how, [&](int64_t, int64_t rows, const float* logits) {
    if (writer != nullptr && written.ok()) written = writer->Append(logits, rows);
  });
  if (!s.ok()) return s;
  if (!written.ok()) return written;
  if (writer != nullptr) {
    if (s = writer->Finish(); !s.ok()) return s;
    json["logits"] = {{"path", in.logits_path},
                      {"shape", {in.logits_last == 0 ? count : in.logits_last, vocab}}};
  }
  if (in.layer_trace) json["layer_trace"] = TraceJson(trace);
  return OkStatus();
}

Status Run(const Inspect& in) {
  if (const auto wrong = in.common.Cache(); !wrong.ok()) return wrong.status();
  const bool evaluates = !in.logits_path.empty() || in.layer_trace;
  if (!evaluates && (in.prompt.has_text || !in.prompt.file.empty() || !in.prompt.ids.empty()))
    return WrongCommandLine("-p, -f and --tokens need --logits or --layer-trace");
  auto engine = in.common.Load();
  if (!engine.ok()) return engine.status();
  const auto cache = in.common.CacheFor(**engine);
  if (!cache.ok()) return cache.status();
  auto config = (*engine)->MakeCacheConfig(*cache);
  if (!config.ok()) return config.status();
  auto json = ModelJson(**engine, *config);
  if (!json.ok()) return json.status();
  if (evaluates) {
    if (Status s = Evaluate(in, **engine, *cache, *json); !s.ok()) return s;
  }
  if (in.common.json) {
    std::printf("%s\n", ToJsonText(*json).c_str());
    return OkStatus();
  }
  if (!evaluates) PrintModel(*json);
  if (json->contains("logits"))
    std::printf("logits %s %s\n", (*json)["logits"]["shape"].dump().c_str(), in.logits_path.c_str());
  for (const Json& r : json->value("layer_trace", Json::array())) std::printf("%s\n", r.dump().c_str());
  return OkStatus();
}

}  // namespace

void AddInspect(CLI::App& program, Action& action) {
  auto in = std::make_shared<Inspect>();
  CLI::App* app =
      program.add_subcommand("inspect", "architecture, cache layers and bytes; logits of given tokens");
  in->common.AddModel(*app);
  in->common.AddBatch(*app);
  in->common.AddCache(*app);
  in->common.AddJson(*app);
  in->prompt.Add(*app, true);
  auto* logits =
      app->add_option("--logits", in->logits_path, "write f32 logits [tokens, vocab] to this .npy file");
  app->add_option("--logits-last", in->logits_last, "the last N positions only")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->needs(logits);
  auto* trace =
      app->add_flag("--layer-trace", in->layer_trace, "per layer: shape, min, max, mean, NaN and inf counts");
  app->add_option("--trace-layers", in->trace_layers, "these layers only, e.g. 0,1 (-1: the embeddings)")
      ->needs(trace);
  app->callback([in, &action] { action = [in] { return Run(*in); }; });
}

}  // namespace holdfast::cli
