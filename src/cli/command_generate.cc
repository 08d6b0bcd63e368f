// generate: a prompt in, its continuation out.
#include <chrono>
#include <cstdio>

#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/run_session.h"
#include "cli/sampling_options.h"

namespace holdfast::cli {
namespace {

struct Generate {
  CommonOptions common;
  PromptOptions prompt;
  GenerationOptions generation;
  bool chat = false;
};

void StreamToStandardOutput(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Result<std::vector<int32_t>> PromptTokens(const Generate& g, const Engine& engine) {
  if (!g.chat) return g.prompt.Tokens(engine, {.add_special = true, .parse_special = true});
  if (!g.prompt.ids.empty()) return WrongCommandLine("--chat formats a text; it does not go with --tokens");
  auto text = g.prompt.Text();
  if (!text.ok()) return text.status();
  const ChatTurn turn{"user", *text};
  return engine.TokenizeChat({&turn, 1}, {});
}

void PrintJson(const Session& session, const SessionOutcome& outcome, const Figures& figures, uint64_t seed) {
  Json json;
  json["tokens"] = std::vector<int32_t>(session.completion().begin(), session.completion().end());
  json["text"] = outcome.text;
  json["finish_reason"] = FinishReasonName(outcome.finish);
  json["seed"] = seed;
  json["usage"] = UsageJson(figures.stats);
  json["timings"] = TimingsJson(figures);
  json["cache"] = CacheJson(figures.stats);
  std::printf("%s\n", ToJsonText(json).c_str());
}

Status Run(const Generate& g) {
  if (const auto wrong = g.common.Cache(); !wrong.ok()) return wrong.status();
  const auto start = std::chrono::steady_clock::now();
  auto engine = g.common.Load();
  if (!engine.ok()) return engine.status();
  const double load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  auto tokens = PromptTokens(g, **engine);
  if (!tokens.ok()) return tokens.status();
  const auto cache = g.common.CacheFor(**engine);
  if (!cache.ok()) return cache.status();
  auto session = (*engine)->NewSession(*cache);
  if (!session.ok()) return session.status();
  const GenerateOptions options = g.generation.Resolve(g.common.batch_tokens);
  if (Status s = (*session)->Start(*tokens, options); !s.ok()) return s;
  auto outcome = RunSession(**session, g.common.json ? nullptr : StreamToStandardOutput);
  if (!outcome.ok()) return outcome.status();
  const Figures figures{(*session)->stats(), load_ms, outcome->finish};
  if (g.common.json) {
    PrintJson(**session, *outcome, figures, options.sampling.seed);
  } else {
    std::printf("\n");
    std::fflush(stdout);
    PrintFigures(figures);
  }
  return OkStatus();
}

}  // namespace

void AddGenerate(CLI::App& program, Action& action) {
  auto g = std::make_shared<Generate>();
  CLI::App* app = program.add_subcommand("generate", "continue a prompt");
  g->common.AddModel(*app);
  g->common.AddBatch(*app);
  g->common.AddCache(*app);
  g->common.AddTwoPhase(*app);
  g->common.AddJson(*app);
  g->prompt.Add(*app, true);
  g->generation.Add(*app);
  app->add_flag("--chat", g->chat, "ask the prompt as a user's turn in the model's chat format");
  app->callback([g, &action] { action = [g] { return Run(*g); }; });
}

}  // namespace holdfast::cli
