// eval: what a cache scheme costs on the user's own text.
#include <cstdio>

#include "cli/commands.h"
#include "cli/progress.h"
#include "holdfast/eval.h"

namespace holdfast::cli {
namespace {

struct Eval {
  CommonOptions common;
  std::string file, schemes = "f16";
  int64_t context = 512, chunks = 0;
  bool exact = false;
};

Status Run(const Eval& e) {
  auto text = ReadFile(e.file);
  if (!text.ok()) return text.status();
  auto base = e.common.Cache();
  if (!base.ok()) return base.status();
  std::vector<std::pair<std::string, CacheOptions>> schemes;
  for (const std::string& spec : SplitList(e.schemes)) {
    auto codecs = ParseKvCache(spec);
    if (!codecs.ok()) return codecs.status();
    CacheOptions options = *base;
    options.k_codec = codecs->k;
    options.v_codec = codecs->v;
    schemes.emplace_back(spec, options);
  }
  if (schemes.empty()) return WrongCommandLine("--kv-cache: the list is empty");
  auto engine = e.common.Load(e.exact);
  if (!engine.ok()) return engine.status();
  auto tokens = (*engine)->Tokenize(*text, {});
  if (!tokens.ok()) return tokens.status();
  Json cells = Json::array();
  for (const auto& [spec, options] : schemes) {
    ProgressBar bar("eval " + spec);
    PerplexityOptions how;
    how.context_tokens = e.context;
    how.chunks = e.chunks;
    how.batch_tokens = e.common.batch_tokens;
    how.progress = [&bar](int64_t done, int64_t total, double) { bar.Show(done, total); };
    auto result = Perplexity(**engine, *tokens, options, how);
    if (!result.ok()) return result.status();
    bar.Clear();
    cells.push_back({{"kv_cache", spec},
                     {"perplexity", result->perplexity},
                     {"nll", result->nll},
                     {"nll_stderr", result->nll_stderr},
                     {"chunks", result->chunks},
                     {"targets", result->targets},
                     {"bytes_per_token", result->bytes_per_token}});
    if (!e.common.json) {
      std::printf("%-16s perplexity %9.4f +- %.4f  %6lld bytes/token  (%lld chunks of %lld)\n", spec.c_str(),
                  result->perplexity, result->perplexity * result->nll_stderr,
                  static_cast<long long>(result->bytes_per_token), static_cast<long long>(result->chunks),
                  static_cast<long long>(e.context));
      std::fflush(stdout);
    }
  }
  if (e.common.json)
    std::printf("%s\n",
                ToJsonText(Json{{"context", e.context}, {"exact", e.exact}, {"cells", cells}}).c_str());
  return OkStatus();
}

}  // namespace

void AddEval(CLI::App& program, Action& action) {
  auto e = std::make_shared<Eval>();
  CLI::App* app = program.add_subcommand("eval", "perplexity of a text with one or more cache schemes");
  e->common.AddModel(*app);
  e->common.AddJson(*app);
  app->add_option("-f,--file", e->file, "the text")->required();
  app->add_option("--context", e->context, "tokens a chunk")
      ->check(CLI::Range(int64_t{4}, int64_t{1} << 30))
      ->capture_default_str();
  app->add_option("--chunks", e->chunks, "chunks from the start; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  e->common.AddShape(*app);
  app->add_option("--kv-cache", e->schemes, "schemes, separated by commas: f16,int8,f16:int8")
      ->capture_default_str();
  app->add_flag("--exact", e->exact, "weights dequantised, products in f32: measures the cache alone; slow");
  app->callback([e, &action] { action = [e] { return Run(*e); }; });
}

}  // namespace holdfast::cli
