// chat: a conversation whose cache goes on over turns.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/run_session.h"
#include "cli/sampling_options.h"

namespace holdfast::cli {
namespace {

struct Chat {
  CommonOptions common;
  GenerationOptions generation;
  std::optional<std::string> system;  // empty: none, not even the template's own
};

// The next user turn: a line. False at the end of input.
bool ReadTurn(bool terminal, std::string& line) {
  do {
    if (terminal) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) return false;
    if (!line.empty() && line.back() == '\r') line.pop_back();
  } while (line.empty());
  return true;
}

Json TurnJson(const Session& session, const SessionOutcome& outcome, const Figures& figures) {
  Json json;
  json["text"] = outcome.text;
  json["tokens"] = std::vector<int32_t>(session.completion().begin(), session.completion().end());
  json["finish_reason"] = FinishReasonName(outcome.finish);
  json["usage"] = UsageJson(figures.stats);
  json["timings"] = TimingsJson(figures);
  json["cache"] = CacheJson(figures.stats);
  return json;
}

// Answers the last turn; the answer joins the turns.
Status Answer(const Chat& c, Engine& engine, Session& session, const GenerateOptions& options,
              std::vector<ChatTurn>& turns, Figures& figures, Json& answers) {
  auto tokens = engine.TokenizeChat(turns, {.default_system = !c.system});
  if (!tokens.ok()) return tokens.status();
  if (Status s = session.Start(*tokens, options); !s.ok()) return s;
  const auto stream = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  auto outcome = c.common.json ? RunSession(session, nullptr) : RunSession(session, stream);
  if (!outcome.ok()) return outcome.status();
  turns.push_back({"assistant", outcome->text});
  figures.stats = session.stats();
  figures.finish = outcome->finish;
  if (c.common.json) answers.push_back(TurnJson(session, *outcome, figures));
  return OkStatus();
}

Status Converse(const Chat& c, Engine& engine, Session& session, double load_ms) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  std::vector<ChatTurn> turns;
  if (c.system && !c.system->empty()) turns.push_back({"system", *c.system});
  const GenerateOptions options = c.generation.Resolve(c.common.batch_tokens);
  Json answers = Json::array();
  Figures figures{{}, load_ms, FinishReason::kNone};
  Status status;
  std::string line;
  while (status.ok() && figures.finish != FinishReason::kContext && ReadTurn(terminal, line)) {
    turns.push_back({"user", line});
    status = Answer(c, engine, session, options, turns, figures, answers);
    if (status.ok() && !c.common.json) {
      std::printf("\n");
      std::fflush(stdout);
      if (terminal) PrintFigures(figures);
    }
  }
  // A turn that failed does not take the earlier answers with it.
  if (c.common.json) {
    std::printf("%s\n", ToJsonText(Json{{"turns", answers}}).c_str());
  } else if (!terminal && status.ok()) {
    PrintFigures(figures);
  }
  return status;
}

Status Run(const Chat& c) {
  if (const auto wrong = c.common.Cache(); !wrong.ok()) return wrong.status();
  const auto start = std::chrono::steady_clock::now();
  auto engine = c.common.Load();
  if (!engine.ok()) return engine.status();
  const double load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const auto cache = c.common.CacheFor(**engine);
  if (!cache.ok()) return cache.status();
  auto session = (*engine)->NewSession(*cache);
  if (!session.ok()) return session.status();
  return Converse(c, **engine, **session, load_ms);
}

}  // namespace

void AddChat(CLI::App& program, Action& action) {
  auto c = std::make_shared<Chat>();
  CLI::App* app = program.add_subcommand("chat", "a conversation; each line of standard input is a turn");
  c->common.AddModel(*app);
  c->common.AddBatch(*app);
  c->common.AddCache(*app);
  c->common.AddTwoPhase(*app);
  c->common.AddJson(*app);
  c->generation.Add(*app);
  app->add_option_function<std::string>(
      "--system", [c](const std::string& text) { c->system = text; },
      "the system message; default: the model's own; '' for none");
  app->callback([c, &action] { action = [c] { return Run(*c); }; });
}

}  // namespace holdfast::cli
