// calibrate: writes a model's centring vectors, which integer codecs quantise its rows better with.
#include <cstdio>

#include "cli/commands.h"
#include "cli/progress.h"
#include "holdfast/calibrate.h"
#include "holdfast/output_file.h"

namespace holdfast::cli {
namespace {

struct CalibrateCommand {
  CommonOptions common;
  std::string file, output;
  CalibrateOptions how;
};

Status Run(const CalibrateCommand& c) {
  auto text = ReadFile(c.file);
  if (!text.ok()) return text.status();
  auto engine = c.common.Load();
  if (!engine.ok()) return engine.status();
  auto tokens = (*engine)->Tokenize(*text, {});
  if (!tokens.ok()) return tokens.status();
  const std::string path = c.output.empty() ? DefaultCenterPath((*engine)->info().path) : c.output;
  OutputFile file(path);
  if (Status s = file.Check(); !s.ok()) return s;
  ProgressBar bar("calibrate");
  CalibrateOptions how = c.how;
  how.progress = [&bar](int64_t done, int64_t total) { bar.Show(done, total); };
  auto centers = Calibrate(**engine, *tokens, how);
  if (!centers.ok()) return centers.status();
  if (Status written = WriteCenters(**engine, *centers, file); !written.ok()) return written;
  bar.Clear();
  if (c.common.json) {
    const Json json{{"path", path}, {"tokens", centers->tokens}, {"layers", centers->layers.size()}};
    std::printf("%s\n", ToJsonText(json).c_str());
  } else {
    std::printf("%s: centres of %zu layers over %lld tokens%s\n", path.c_str(), centers->layers.size(),
                static_cast<long long>(centers->tokens),
                c.output.empty() ? "; found there by itself" : "; use it with --kv-center");
  }
  return OkStatus();
}

}  // namespace

void AddCalibrate(CLI::App& program, Action& action) {
  auto c = std::make_shared<CalibrateCommand>();
  CLI::App* app = program.add_subcommand(
      "calibrate", "write a model's centring vectors from a text, for quantised caches");
  c->common.AddModel(*app);
  c->common.AddJson(*app);
  app->add_option("-f,--file", c->file, "the text, byte for byte")->required();
  app->add_option("-o,--output", c->output, "where to write; default: beside the model, where it is found");
  app->add_option("--context", c->how.context_tokens, "tokens a chunk; fewer where text or model has fewer")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  app->add_option("--chunks", c->how.chunks, "chunks from the start; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app->add_flag("--values", c->how.values, "centre values too, which costs most models more than it gains");
  app->add_option("-b,--batch", c->how.batch_tokens, "prefill chunk in tokens")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->callback([c, &action] { action = [c] { return Run(*c); }; });
}

}  // namespace holdfast::cli
