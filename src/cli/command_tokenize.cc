// tokenize: text to ids, and ids to text with --decode.
#include <cstdio>

#include "cli/commands.h"

namespace holdfast::cli {
namespace {

struct Tokenize {
  CommonOptions common;
  PromptOptions prompt;
  std::string decode;
  bool no_special = false, parse_special = false;
};

Status Decode(const Tokenize& t, const Engine& engine) {
  auto ids = ParseIds("--decode", t.decode);
  if (!ids.ok()) return ids.status();
  auto text = engine.Detokenize(*ids);
  if (!text.ok()) return text.status();
  if (t.common.json) {
    std::printf("%s\n", ToJsonText(Json{{"text", *text}}).c_str());
  } else {
    std::fwrite(text->data(), 1, text->size(), stdout);
    std::printf("\n");
  }
  return OkStatus();
}

Status Encode(const Tokenize& t, const Engine& engine) {
  auto text = t.prompt.Text();
  if (!text.ok()) return text.status();
  auto ids = engine.Tokenize(*text, {!t.no_special, t.parse_special});
  if (!ids.ok()) return ids.status();
  Json pieces = Json::array();
  for (const int32_t id : *ids) {
    auto piece = engine.TokenPiece(id);
    if (!piece.ok()) return piece.status();
    pieces.push_back(*piece);
  }
  if (t.common.json) {
    std::printf("%s\n", ToJsonText(Json{{"tokens", *ids}, {"pieces", pieces}}).c_str());
    return OkStatus();
  }
  for (size_t i = 0; i < ids->size(); ++i) std::printf("%7d %s\n", (*ids)[i], ToJsonText(pieces[i]).c_str());
  return OkStatus();
}

Status Run(const Tokenize& t) {
  auto engine = t.common.Load();
  if (!engine.ok()) return engine.status();
  return t.decode.empty() ? Encode(t, **engine) : Decode(t, **engine);
}

}  // namespace

void AddTokenize(CLI::App& program, Action& action) {
  auto t = std::make_shared<Tokenize>();
  CLI::App* app = program.add_subcommand("tokenize", "text to token ids, or back");
  t->common.AddModel(*app);
  t->common.AddJson(*app);
  t->prompt.Add(*app, false);
  app->add_flag("--no-special", t->no_special, "leave out the model's own BOS/EOS");
  app->add_flag("--parse-special", t->parse_special, "read special tokens' text as those tokens");
  auto* decode = app->add_option("--decode", t->decode, "ids to text: 1,2,3 or @FILE");
  for (const char* of_text : {"--prompt", "--file", "--no-special", "--parse-special"})
    decode->excludes(of_text);
  app->callback([t, &action] { action = [t] { return Run(*t); }; });
}

}  // namespace holdfast::cli
