// eval: what cache schemes cost on the user's own text, and whether they still find a needle in it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "cli/auto_cache.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/quality_plot.h"
#include "holdfast/eval.h"
#include "holdfast/output_file.h"

namespace holdfast::cli {
namespace {

struct Eval {
  CommonOptions common;
  std::string file, schemes = "f16", svg, depths = "0,0.25,0.5,0.75,1";
  int64_t context = 512, chunks = 0;
  bool exact = false, needle = false, has_context = false;
};

struct Schemes {
  std::vector<std::string> names;
  std::vector<CacheOptions> options;
  std::vector<std::optional<AutoScheme>> chosen;  // of those that are `auto`, once the model is there
};

// The first that is `auto`, else empty.
std::string AutoOf(const Schemes& schemes) {
  const auto found = std::find_if(schemes.names.begin(), schemes.names.end(), IsAutoCache);
  return found == schemes.names.end() ? "" : *found;
}

Result<Schemes> ParseSchemes(const Eval& e) {
  Schemes schemes;
  for (const std::string& spec : SplitList(e.schemes)) {
    CacheOptions options;
    if (IsAutoCache(spec)) {
      if (const auto kld = ParseAutoCache(spec); !kld.ok()) return kld.status();
    } else {
      auto codecs = ParseKvCache(spec);
      if (!codecs.ok()) return codecs.status();
      options.k_codec = codecs->k;
      options.v_codec = codecs->v;
    }
    schemes.names.push_back(spec);
    schemes.options.push_back(options);
  }
  if (schemes.names.empty()) return WrongCommandLine("--kv-cache: the list is empty");
  schemes.chosen.resize(schemes.names.size());
  return schemes;
}

// Rotation and centring are of the integer codecs among the schemes; where there is none, asking for them is refused.
void SetShape(const CacheOptions& base, Schemes& schemes) {
  bool transforms = !AutoOf(schemes).empty();
  for (CacheOptions& options : schemes.options) {
    const KvSpec codecs{options.k_codec, options.v_codec};
    options = base;
    options.k_codec = codecs.k;
    options.v_codec = codecs.v;
    transforms = transforms || HasIntegerCodec(options);
  }
  if (!transforms) return;
  for (size_t i = 0; i < schemes.names.size(); ++i) {
    if (!IsAutoCache(schemes.names[i])) schemes.options[i] = WithoutIdleTransforms(schemes.options[i]);
  }
}

Status ChooseAutoSchemes(const Eval& e, Engine& engine, Schemes& schemes) {
  for (size_t i = 0; i < schemes.names.size(); ++i) {
    if (!IsAutoCache(schemes.names[i])) continue;
    const auto kld = ParseAutoCache(schemes.names[i]);
    if (!kld.ok()) return kld.status();
    auto scheme =
        ChooseAutoCache(engine, schemes.options[i], *kld, e.common.auto_text, e.common.batch_tokens);
    if (!scheme.ok()) return scheme.status();
    schemes.options[i] = WithScheme(schemes.options[i], *scheme);
    schemes.chosen[i] = std::move(*scheme);
  }
  return OkStatus();
}

Json QualityJson(const std::string& name, const SchemeQuality& q) {
  return {{"kv_cache", name},
          {"perplexity", q.perplexity},
          {"nll", q.nll},
          {"nll_stderr", q.nll_stderr},
          {"kld_mean", q.kld_mean},
          {"kld_stderr", q.kld_stderr},
          {"kld_p99", q.kld_p99},
          {"kld_max", q.kld_max},
          {"same_top", q.same_top},
          {"chunks", q.chunks},
          {"targets", q.targets},
          {"bytes_per_token", q.bytes_per_token},
          {"decode_tokens_per_s", q.decode_tokens_per_s}};
}

void PrintQuality(const std::string& name, const SchemeQuality& q) {
  std::printf("%-18s %10.4f %8.4f %10.6f %10.6f %9.5f %9.4f %8.3f %9lld %10.1f\n", name.c_str(), q.perplexity,
              q.perplexity * q.nll_stderr, q.kld_mean, q.kld_stderr, q.kld_p99, q.kld_max, 100.0 * q.same_top,
              static_cast<long long>(q.bytes_per_token), q.decode_tokens_per_s);
}

// As it was written: 0.0001, not the float's 9.9999997e-05.
double AsWritten(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", static_cast<double>(value));
  return std::strtod(text, nullptr);
}

void PrintReport(const Eval& e, const Schemes& schemes, const QualityReport& report) {
  if (e.common.json) {
    Json cells = Json::array();
    for (size_t i = 0; i < schemes.names.size(); ++i) {
      cells.push_back(QualityJson(schemes.names[i], report.schemes[i]));
      if (const auto& chosen = schemes.chosen[i]; chosen) {
        cells.back()["layers"] = LayerSchemesName(chosen->layers);
        cells.back()["kld_held_out"] = chosen->kld_held_out;
      }
    }
    const Json json{{"context", e.context},
                    {"exact", e.exact},
                    {"kv_layers", e.common.kv_layers},
                    {"sparse_v", AsWritten(e.common.sparse_v)},
                    {"sparse_pages", e.common.sparse_pages},
                    {"reference", QualityJson("f16", report.reference)},
                    {"cells", cells}};
    std::printf("%s\n", ToJsonText(json).c_str());
  } else {
    std::printf("%lld chunks of %lld tokens, %lld targets; KL divergence from f16 in nats%s%s\n",
                static_cast<long long>(report.reference.chunks), static_cast<long long>(e.context),
                static_cast<long long>(report.reference.targets),
                e.common.kv_layers.empty() ? "" : "; every scheme but for layers ",
                e.common.kv_layers.c_str());
    std::printf("%-18s %10s %8s %10s %10s %9s %9s %8s %9s %10s\n", "scheme", "perplexity", "+-", "KLD mean",
                "+-", "KLD p99", "KLD max", "same %", "B/token", "decode t/s");
    for (size_t i = 0; i < schemes.names.size(); ++i) PrintQuality(schemes.names[i], report.schemes[i]);
  }
}

std::string PlotOf(const Eval& e, const std::string& model, const Schemes& schemes,
                   const QualityReport& report) {
  std::vector<QualityPoint> points{{"f16", report.reference.bytes_per_token, 0.0}};
  for (size_t i = 0; i < schemes.names.size(); ++i) {
    if (report.schemes[i].kld_max > 0.0)
      points.push_back({schemes.names[i], report.schemes[i].bytes_per_token, report.schemes[i].kld_mean});
  }
  const std::string title = model + ", " + std::to_string(report.reference.chunks) + " chunks of " +
                            std::to_string(e.context) + " tokens" + (e.exact ? ", exact products" : "");
  return QualityPlot(title, points);
}

Status RunQuality(const Eval& e, Engine& engine, const std::string& text, const CacheOptions& base,
                  const Schemes& schemes) {
  auto tokens = engine.Tokenize(text, {});
  if (!tokens.ok()) return tokens.status();
  std::optional<OutputFile> svg;
  if (!e.svg.empty()) {
    svg.emplace(e.svg);
    if (Status s = svg->Check(); !s.ok()) return s;
  }
  ProgressBar bar("eval");
  EvalOptions how;
  how.context_tokens = e.context;
  how.chunks = e.chunks;
  how.batch_tokens = e.common.batch_tokens;
  how.progress = [&bar](int64_t done, int64_t total) { bar.Show(done, total); };
  CacheOptions reference = base;
  reference.k_codec = reference.v_codec = CodecId::kF16;
  reference.layers.clear();
  reference.rotate = KvRotate::kAuto;  // what is asked for the schemes; f16 takes none
  reference.center_file.clear();
  reference.sparse_v = 0.0f;
  reference.sparse_pages = 0;
  auto report = MeasureQuality(engine, *tokens, reference, schemes.options, how);
  if (!report.ok()) return report.status();
  bar.Clear();
  PrintReport(e, schemes, *report);
  if (!svg) return OkStatus();
  svg->stream() << PlotOf(e, engine.info().name, schemes, *report);
  return svg->Finish();
}

Result<std::vector<double>> ParseDepths(const std::string& text) {
  std::vector<double> depths;
  for (const std::string& item : SplitList(text)) {
    char* end = nullptr;
    const double depth = std::strtod(item.c_str(), &end);
    if (*end != '\0' || !(depth >= 0.0 && depth <= 1.0))
      return WrongCommandLine("--depths: '" + item + "' must be a number in [0, 1]");
    depths.push_back(depth);
  }
  if (depths.empty()) return WrongCommandLine("--depths: the list is empty");
  return depths;
}

Status RunNeedle(const Eval& e, Engine& engine, const std::string& filler, const std::vector<double>& depths,
                 const Schemes& schemes) {
  ProgressBar bar("needle");
  NeedleOptions how;
  how.context_tokens = e.common.max_context > 0 ? e.common.max_context : e.context;
  how.depths = depths;
  how.filler = filler;
  how.batch_tokens = e.common.batch_tokens;
  how.progress = [&bar](int64_t done, int64_t total) { bar.Show(done, total); };
  auto cells = FindNeedles(engine, schemes.options, how);
  if (!cells.ok()) return cells.status();
  bar.Clear();
  Json needles = Json::array();
  if (!e.common.json)
    std::printf("%-18s %8s %6s %6s %6s %10s\n", "scheme", "context", "depth", "key", "found", "nll");
  for (const NeedleCell& c : *cells) {
    const std::string& name = schemes.names[static_cast<size_t>(c.scheme)];
    needles.push_back({{"kv_cache", name},
                       {"context", c.context_tokens},
                       {"depth", c.depth},
                       {"key", c.key},
                       {"found", c.found},
                       {"nll", c.nll}});
    if (e.common.json) continue;
    std::printf("%-18s %8lld %6.2f %6s %6s %10.4f\n", name.c_str(), static_cast<long long>(c.context_tokens),
                c.depth, c.key.c_str(), c.found ? "yes" : "no", c.nll);
  }
  if (e.common.json) std::printf("%s\n", ToJsonText(Json{{"needles", needles}}).c_str());
  return OkStatus();
}

Status Run(const Eval& e) {
  auto schemes = ParseSchemes(e);
  if (!schemes.ok()) return schemes.status();
  auto base = e.common.Shape(AutoOf(*schemes));
  if (!base.ok()) return base.status();
  SetShape(*base, *schemes);
  auto depths = ParseDepths(e.depths);
  if (!depths.ok()) return depths.status();
  if (e.needle && e.has_context && e.common.max_context > 0) {
    return WrongCommandLine("--needle takes one context: --context is " + std::to_string(e.context) +
                            ", -c is " + std::to_string(e.common.max_context));
  }
  if (e.file.empty() && !e.needle) return WrongCommandLine("-f TEXT is required, except with --needle");
  std::string text;
  if (!e.file.empty()) {
    auto content = ReadFile(e.file);
    if (!content.ok()) return content.status();
    text = std::move(*content);
  }
  auto engine = e.common.Load(e.exact);
  if (!engine.ok()) return engine.status();
  if (Status s = ChooseAutoSchemes(e, **engine, *schemes); !s.ok()) return s;
  return e.needle ? RunNeedle(e, **engine, text, *depths, *schemes)
                  : RunQuality(e, **engine, text, *base, *schemes);
}

}  // namespace

void AddEval(CLI::App& program, Action& action) {
  auto e = std::make_shared<Eval>();
  CLI::App* app = program.add_subcommand("eval", "what cache schemes cost in quality on a text, against f16");
  e->common.AddModel(*app);
  e->common.AddJson(*app);
  app->add_option("-f,--file", e->file, "the text; with --needle the filler, which may be left out");
  auto* context = app->add_option("--context", e->context, "tokens a chunk; with --needle the same as -c")
                      ->check(CLI::Range(int64_t{4}, int64_t{1} << 30))
                      ->capture_default_str();
  auto* chunks = app->add_option("--chunks", e->chunks, "chunks from the start; 0: all")
                     ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  e->common.AddBatch(*app);
  e->common.AddShape(*app);
  e->common.AddLayers(*app);
  app->add_option("--kv-cache", e->schemes, "schemes, separated by commas: f16,int8,f16:int8,auto:kld=0.01")
      ->capture_default_str();
  app->add_flag("--exact", e->exact, "weights dequantised, products in f32: measures the cache alone; slow");
  auto* svg =
      app->add_option("--svg", e->svg, "write a plot of KL divergence against bytes a token to this file");
  auto* needle = app->add_flag("--needle", e->needle,
                               "hide a number in a context of -c tokens and ask for it at the end")
                     ->excludes(svg)
                     ->excludes(chunks);
  app->add_option("--depths", e->depths, "where in the context: 0 is its start, 1 its end")
      ->needs(needle)
      ->capture_default_str();
  app->callback([e, context, &action] {
    e->has_context = context->count() > 0;
    action = [e] { return Run(*e); };
  });
}

}  // namespace holdfast::cli
