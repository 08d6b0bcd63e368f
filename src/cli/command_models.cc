// models: short names, where each comes from, whether it is here; `models fetch NAME`.
#include <cstdio>

#include "cli/commands.h"
#include "holdfast/model_store.h"

namespace holdfast::cli {
namespace {

struct Models {
  CommonOptions common;
  std::string name;
};

Json EntryJson(const StoreEntry& e) {
  return {{"name", e.name},   {"description", e.description}, {"source", e.source},  {"path", e.path},
          {"bytes", e.bytes}, {"sha256", e.sha256},           {"present", e.present}};
}

Status List(const Models& m) {
  Json json = Json::array();
  for (const StoreEntry& e : ModelStoreEntries()) {
    json.push_back(EntryJson(e));
    if (!m.common.json) {
      std::printf("%-10s %s\n%10s from %s\n%10s %s\n", e.name.c_str(), e.description.c_str(), "",
                  e.source.c_str(), "",
                  e.present ? e.path.c_str() : ("not here; holdfast models fetch " + e.name).c_str());
    }
  }
  if (m.common.json) std::printf("%s\n", ToJsonText(Json{{"models", json}}).c_str());
  return OkStatus();
}

Status Fetch(const Models& m) {
  auto path = FetchModel(m.name, [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  if (!path.ok()) return path.status();
  if (m.common.json) {
    std::printf("%s\n", ToJsonText(Json{{"name", m.name}, {"path", *path}}).c_str());
  } else {
    std::printf("%s\n", path->c_str());
  }
  return OkStatus();
}

}  // namespace

void AddModels(CLI::App& program, Action& action) {
  auto m = std::make_shared<Models>();
  CLI::App* models = program.add_subcommand("models", "short names of models and where they are");
  m->common.AddJson(*models);
  models->callback([m, models, &action] {
    if (models->get_subcommands().empty()) action = [m] { return List(*m); };
  });
  CLI::App* fetch = models->add_subcommand("fetch", "download a model, check its digest and keep it");
  fetch->add_option("name", m->name, "a name that `holdfast models` lists")->required();
  m->common.AddJson(*fetch);
  fetch->callback([m, &action] { action = [m] { return Fetch(*m); }; });
}

}  // namespace holdfast::cli
