// bench: append, attention, decode; the others have files of their own.
#include <cstdio>

#include "cli/commands.h"
#include "holdfast/bench.h"

namespace holdfast::cli {
namespace {

struct BenchOptions {
  CommonOptions common;
  std::string rows, codecs = "f16,int8", storage = "contiguous", heads = "9/3";
  std::string depths = "128,2048,8000", prompts = "128,512,2048,8000";
  int head_dim = 64;
  int64_t decode_tokens = 32;
};

Status RunAppend(const BenchOptions& b) {
  auto rows = ParseNumbers("--rows", b.rows.empty() ? "512,1024,4096,32768" : b.rows);
  if (!rows.ok()) return rows.status();
  auto cells = BenchAppend(*rows);
  if (!cells.ok()) return RefusedOption(cells.status(), "bench append");
  Json json = Json::array();
  for (const AppendCell& c : *cells) {
    json.push_back({{"rows", c.rows}, {"ours_ns", c.ours_ns}, {"concatenate_ns", c.concatenate_ns}});
    if (!b.common.json) {
      std::printf("%8lld rows  append %10.0f ns  concatenate %13.0f ns\n", static_cast<long long>(c.rows),
                  c.ours_ns, c.concatenate_ns);
    }
  }
  if (b.common.json) std::printf("%s\n", ToJsonText(Json{{"cells", json}}).c_str());
  return OkStatus();
}

Result<AttentionBenchOptions> AttentionOptions(const BenchOptions& b) {
  AttentionBenchOptions options;
  options.threads = b.common.threads;
  options.sparse_pages = b.common.sparse_pages;
  options.head_dim = b.head_dim;
  for (const std::string& name : SplitList(b.codecs)) {
    if (name == "all") {
      for (const CodecId id : AllCodecs()) options.codecs.push_back({id, id});
      continue;
    }
    auto codec = ParseKvSpec(name);
    if (!codec.ok()) return WrongCommandLine("--codecs: " + codec.status().message());
    options.codecs.push_back(*codec);
  }
  for (const std::string& name : SplitList(b.storage)) {
    auto storage = ParseStorage(name);
    if (!storage.ok()) return WrongCommandLine("--storage: " + storage.status().message());
    options.storages.push_back(*storage);
  }
  if (options.codecs.empty()) return WrongCommandLine("--codecs: the list is empty");
  if (options.storages.empty()) return WrongCommandLine("--storage: the list is empty");
  const auto heads = ParseHeads(b.heads);
  if (!heads.ok()) return heads.status();
  options.q_heads = heads->first;
  options.kv_heads = heads->second;
  auto rows = ParseNumbers("--rows", b.rows.empty() ? "8192,32768" : b.rows);
  if (!rows.ok()) return rows.status();
  options.rows = *rows;
  return options;
}

Json AttentionJson(const AttentionCell& c) {
  return {{"k", CodecSpecName(c.codec.k)},
          {"v", CodecSpecName(c.codec.v)},
          {"storage", StorageName(c.storage)},
          {"layout", LayoutName(c.layout.id)},
          {"q_heads", c.q_heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"rows", c.rows},
          {"ns", c.ns},
          {"bytes", c.bytes},
          {"gb_per_s", c.gb_per_s},
          {"fraction_of_read", c.fraction_of_read},
          {"speed_vs_f16", c.speed_vs_f16 > 0 ? Json(c.speed_vs_f16) : Json(nullptr)},
          {"sparse_ns", c.sparse_ns > 0 ? Json(c.sparse_ns) : Json(nullptr)}};
}

Status RunAttention(const BenchOptions& b) {
  auto options = AttentionOptions(b);
  if (!options.ok()) return options.status();
  auto bench = BenchAttention(*options);
  if (!bench.ok()) return RefusedOption(bench.status(), "bench attention");
  Json cells = Json::array();
  if (!b.common.json) {
    std::printf("plain read loop %.1f GB/s\n%-6s %-10s %7s %5s %8s %10s %8s %8s %8s", bench->read_gb_per_s,
                "codec", "storage", "heads", "dim", "rows", "us", "GB/s", "of read", "vs f16");
    if (b.common.sparse_pages > 0) std::printf(" %9s %8s", "sparse us", "vs dense");
    std::printf("\n");
  }
  for (const AttentionCell& c : bench->cells) {
    cells.push_back(AttentionJson(c));
    if (!b.common.json) {
      std::printf("%-6s %-10s %7s %5d %8lld %10.1f %8.2f %8.2f %8.2f", KvSpecName(c.codec).c_str(),
                  std::string(StorageName(c.storage)).c_str(), b.heads.c_str(), c.head_dim,
                  static_cast<long long>(c.rows), c.ns * 1e-3, c.gb_per_s, c.fraction_of_read,
                  c.speed_vs_f16);
      if (c.sparse_ns > 0) std::printf(" %9.1f %8.2f", c.sparse_ns * 1e-3, c.ns / c.sparse_ns);
      std::printf("\n");
    }
  }
  if (b.common.json)
    std::printf("%s\n", ToJsonText(Json{{"read_gb_per_s", bench->read_gb_per_s}, {"cells", cells}}).c_str());
  return OkStatus();
}

Status RunDecode(const BenchOptions& b) {
  if (const auto wrong = b.common.Cache(); !wrong.ok()) return wrong.status();
  auto depths = ParseNumbers("--depths", b.depths);
  if (!depths.ok()) return depths.status();
  auto prompts = ParseNumbers("--prompts", b.prompts);
  if (!prompts.ok()) return prompts.status();
  auto engine = b.common.Load();
  if (!engine.ok()) return engine.status();
  const auto cache = b.common.CacheFor(**engine);
  if (!cache.ok()) return cache.status();
  auto cells = BenchDecode(**engine, *cache, *depths, *prompts, b.decode_tokens, b.common.batch_tokens);
  if (!cells.ok()) return RefusedOption(cells.status(), "bench decode");
  Json json = Json::array();
  for (const DecodeCell& c : *cells) {
    json.push_back({{"kind", c.prefill ? "prefill" : "decode"},
                    {"depth", c.depth},
                    {"tokens", c.tokens},
                    {"tokens_per_s", c.tokens_per_s}});
    if (!b.common.json) {
      std::printf("%-8s depth %6lld  %6lld tokens  %9.1f tokens/s\n", c.prefill ? "prefill" : "decode",
                  static_cast<long long>(c.depth), static_cast<long long>(c.tokens), c.tokens_per_s);
    }
  }
  if (b.common.json) std::printf("%s\n", ToJsonText(Json{{"cells", json}}).c_str());
  return OkStatus();
}

}  // namespace

void AddBench(CLI::App& program, Action& action) {
  auto b = std::make_shared<BenchOptions>();
  CLI::App* bench =
      program.add_subcommand("bench", "measurements of the cache, of attention, of a model, of a server");
  bench->require_subcommand(1);

  CLI::App* append =
      bench->add_subcommand("append", "one token to 20 caches of 4 heads x 512, beside concatenation");
  append->add_option("--rows", b->rows, "rows already stored; default 512,1024,4096,32768");
  b->common.AddJson(*append);
  append->callback([b, &action] { action = [b] { return RunAppend(*b); }; });

  CLI::App* attention = bench->add_subcommand("attention", "decode attention beside a plain read loop");
  attention->add_option("--codecs", b->codecs, "codecs, or all")->capture_default_str();
  attention->add_option("--storage", b->storage, "storages")->capture_default_str();
  attention->add_option("--heads", b->heads, "query heads / KV heads")->capture_default_str();
  attention->add_option("--head-dim", b->head_dim, "dim of a head")->capture_default_str();
  attention->add_option("--rows", b->rows, "rows; default 8192,32768");
  attention->add_option("-t,--threads", b->common.threads, "threads; 0: one a core")
      ->check(CLI::Range(0, 256));
  b->common.AddSparsePages(*attention);
  b->common.AddJson(*attention);
  attention->callback([b, &action] { action = [b] { return RunAttention(*b); }; });

  AddBenchCascade(*bench, action);
  AddBenchServe(*bench, action);

  CLI::App* decode = bench->add_subcommand("decode", "prefill and decode of a model in tokens/s");
  b->common.AddModel(*decode);
  b->common.AddBatch(*decode);
  b->common.AddCache(*decode);
  b->common.AddJson(*decode);
  decode->add_option("--depths", b->depths, "tokens in the cache when decoding")->capture_default_str();
  decode->add_option("--prompts", b->prompts, "prompt lengths to prefill")->capture_default_str();
  decode->add_option("-n,--max-tokens", b->decode_tokens, "tokens to decode at each depth")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  decode->callback([b, &action] { action = [b] { return RunDecode(*b); }; });
}

}  // namespace holdfast::cli
