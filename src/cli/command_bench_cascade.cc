// bench cascade: decode of sequences that share their first rows.
#include <cstdio>

#include "cli/commands.h"
#include "holdfast/bench.h"

namespace holdfast::cli {
namespace {

struct CascadeOptions {
  CommonOptions common;
  std::string codecs = "f16,int8,aura4", members = "2,8,32", shared = "256,2048,8192", heads = "9/3";
  int head_dim = 64, own_rows = 128;
};

Result<CascadeBenchOptions> Parse(const CascadeOptions& c) {
  CascadeBenchOptions options;
  options.threads = c.common.threads;
  options.head_dim = c.head_dim;
  options.own_rows = c.own_rows;
  for (const std::string& name : SplitList(c.codecs)) {
    auto codec = ParseKvSpec(name);
    if (!codec.ok()) return WrongCommandLine("--codecs: " + codec.status().message());
    options.codecs.push_back(*codec);
  }
  if (options.codecs.empty()) return WrongCommandLine("--codecs: the list is empty");
  auto heads = ParseHeads(c.heads);
  if (!heads.ok()) return heads.status();
  options.q_heads = heads->first;
  options.kv_heads = heads->second;
  auto members = ParseNumbers("--members", c.members);
  if (!members.ok()) return members.status();
  options.members = *members;
  auto shared = ParseNumbers("--shared", c.shared);
  if (!shared.ok()) return shared.status();
  options.shared_rows = *shared;
  return options;
}

Status RunCascade(const CascadeOptions& c) {
  auto options = Parse(c);
  if (!options.ok()) return options.status();
  auto cells = BenchCascade(*options);
  if (!cells.ok()) return RefusedOption(cells.status(), "bench cascade");
  Json json = Json::array();
  if (!c.common.json) {
    std::printf("%-8s %8s %8s %8s %12s %12s %8s\n", "codec", "members", "shared", "own", "cascade us",
                "apart us", "speed");
  }
  for (const CascadeCell& cell : *cells) {
    json.push_back({{"kv_cache", KvSpecName(cell.codec)},
                    {"members", cell.members},
                    {"shared_rows", cell.shared_rows},
                    {"own_rows", cell.own_rows},
                    {"cascade_ns", cell.cascade_ns},
                    {"apart_ns", cell.apart_ns},
                    {"speed", cell.apart_ns / cell.cascade_ns}});
    if (c.common.json) continue;
    std::printf("%-8s %8lld %8lld %8lld %12.1f %12.1f %8.2f\n", KvSpecName(cell.codec).c_str(),
                static_cast<long long>(cell.members), static_cast<long long>(cell.shared_rows),
                static_cast<long long>(cell.own_rows), cell.cascade_ns * 1e-3, cell.apart_ns * 1e-3,
                cell.apart_ns / cell.cascade_ns);
  }
  if (c.common.json) std::printf("%s\n", ToJsonText(Json{{"cells", json}}).c_str());
  return OkStatus();
}

}  // namespace

void AddBenchCascade(CLI::App& bench, Action& action) {
  auto c = std::make_shared<CascadeOptions>();
  CLI::App* cascade =
      bench.add_subcommand("cascade", "decode of sequences that share their first rows, read once or each");
  cascade->add_option("--codecs", c->codecs, "codecs")->capture_default_str();
  cascade->add_option("--members", c->members, "sequences in a step")->capture_default_str();
  cascade->add_option("--shared", c->shared, "rows that they share")->capture_default_str();
  cascade->add_option("--own-rows", c->own_rows, "rows of each after those")->capture_default_str();
  cascade->add_option("--heads", c->heads, "query heads / KV heads")->capture_default_str();
  cascade->add_option("--head-dim", c->head_dim, "dim of a head")->capture_default_str();
  cascade->add_option("-t,--threads", c->common.threads, "threads; 0: one a core")->check(CLI::Range(0, 256));
  c->common.AddJson(*cascade);
  cascade->callback([c, &action] { action = [c] { return RunCascade(*c); }; });
}

}  // namespace holdfast::cli
