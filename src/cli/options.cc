#include "cli/options.h"

#include <charconv>
#include <fstream>

#include "cli/auto_cache.h"
#include "cli/progress.h"

namespace holdfast::cli {
namespace {

constexpr const char* kWrong = "command line: ";

std::string CheckSparsePages(const std::string& text) {
  int64_t pages = 0;
  const bool number = CLI::detail::lexical_cast(text, pages);
  if (number && (pages == 0 || (pages >= kMinSparsePages && pages <= kMaxSparsePages))) return "";
  return "Value " + text + " must be 0 or in [" + std::to_string(kMinSparsePages) + ", " +
         std::to_string(kMaxSparsePages) + "]";
}

}  // namespace

Status WrongCommandLine(std::string message) {
  return InvalidArgument(kWrong + std::move(message));
}
bool IsWrongCommandLine(const Status& status) {
  return status.message().starts_with(kWrong);
}

Status RefusedOption(const Status& status, const std::string& operation) {
  const bool is_option =
      status.code() == StatusCode::kInvalidArgument && status.message().starts_with(operation + ": ");
  return is_option ? WrongCommandLine(status.message()) : status;
}

void CommonOptions::AddModel(CLI::App& app) {
  app.add_option("-m,--model", model,
                 "a GGUF file, a Hugging Face folder, or a name that `holdfast models` lists")
      ->required();
  app.add_option("-t,--threads", threads, "threads; 0: one a core")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
}

void CommonOptions::AddJson(CLI::App& app) {
  app.add_flag("--json", json, "one JSON object on standard output and nothing else there");
}

void CommonOptions::AddBatch(CLI::App& app) {
  app.add_option("-b,--batch", batch_tokens, "prefill chunk in tokens")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

void CommonOptions::AddShape(CLI::App& app) {
  const auto positive = CLI::Range(int64_t{1}, kMaxContextTokens);
  const auto count = CLI::Range(int64_t{0}, kMaxContextTokens);
  app.add_option("-c,--max-context", max_context, "positions a sequence may hold; default: the model's")
      ->check(positive);
  app.add_option("--kv-storage", storage, "contiguous or paged")->capture_default_str();
  app.add_option("--kv-block-tokens", block_tokens, "tokens a block of paged storage")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}))
      ->capture_default_str();
  app.add_option("--kv-window-size", window_tokens,
                 "turn full layers into windows of this many tokens; 0: leave them")
      ->check(count);
  app.add_option("--kv-window-keep", sink_tokens,
                 "first tokens that such a window keeps, with --kv-window-size")
      ->check(count);
  app.add_option("--kv-protect-sinks", protect_sinks, "keep the first N rows f16 where a layer is quantised")
      ->check(count);
  app.add_option("--kv-recent", recent_tokens,
                 "keep the N most recent rows of a query f16 where a layer is quantised")
      ->check(count);
  app.add_option("--kv-rotate", rotate, "rotate rows before an integer codec: on, off, auto (below 8 bits)")
      ->capture_default_str();
  app.add_option(
      "--kv-center", center,
      "centre rows of integer codecs by this file of `holdfast calibrate`, or off; default: the file beside "
      "the model");
  app.add_option("--kv-auto-text", auto_text,
                 "calibrate --kv-cache auto:kld=X on this text; default: what the model itself samples");
  app.add_option("--kv-sparse-v", sparse_v, "skip V rows of a weight below this, 1e-4 say; 0: none, exact")
      ->check(CLI::Range(0.0f, 0.5f));
  AddSparsePages(app);
  app.add_option("--rewind-tokens", rewind_tokens, "tokens that can always be taken back")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
}

void CommonOptions::AddSparsePages(CLI::App& app) {
  app.add_option("--kv-sparse-pages", sparse_pages,
                 "a token visits at most this many pages of 16 rows in each layer that sees all positions "
                 "(windows are "
                 "as ever): the first, the last 4, and those whose keys promise most; 0: all, exact")
      ->check(CheckSparsePages,
              "0 or in [" + std::to_string(kMinSparsePages) + " - " + std::to_string(kMaxSparsePages) + "]");
}

void CommonOptions::AddLayers(CLI::App& app) {
  app.add_option("--kv-layers", kv_layers, "other codecs for some layers: 0-1=f16,2-29=aura4v2");
  app.add_option("--kv-protect-layers", protect_layers, "keep the first and the last N layers f16")
      ->check(CLI::Range(0, kMaxLayers));
}

void CommonOptions::AddCache(CLI::App& app) {
  AddShape(app);
  auto* both = app.add_option(
      "--kv-cache", kv_cache,
      "codec of K and V, or K:V (f16, f16:int8), or auto:kld=X: the cheapest codecs, a layer and "
      "side, within that KL divergence; default f16");
  app.add_option("--cache-type-k", type_k, "codec of K")->excludes(both);
  app.add_option("--cache-type-v", type_v, "codec of V")->excludes(both);
  AddLayers(app);
}

void CommonOptions::AddTwoPhase(CLI::App& app) {
  app.add_flag(
      "--kv-two-phase", two_phase,
      "keep the prompt in f16 until it is through, then encode it; not reproducible over prompt splits");
}

Result<KvSpec> ParseKvCache(const std::string& spec) {
  auto parsed = ParseKvSpec(spec);
  if (!parsed.ok()) return WrongCommandLine("--kv-cache " + spec + ": " + parsed.status().message());
  return parsed;
}

Result<CacheOptions> CommonOptions::Shape(const std::string& auto_cache) const {
  if (!auto_text.empty() && auto_cache.empty())
    return WrongCommandLine("--kv-auto-text " + auto_text + ": there is no --kv-cache auto:kld=X to choose");
  if (sink_tokens > 0 && window_tokens == 0) {
    return WrongCommandLine("--kv-window-keep " + std::to_string(sink_tokens) +
                            " needs a window: --kv-window-size is 0, must be at least 1");
  }
  CacheOptions options;
  if (!kv_layers.empty()) {
    if (!auto_cache.empty()) return WrongCommandLine("--kv-layers does not go with --kv-cache " + auto_cache);
    auto schemes = ParseLayerSchemes(kv_layers);
    if (!schemes.ok())
      return WrongCommandLine("--kv-layers " + kv_layers + ": " + schemes.status().message());
    options.layers = std::move(*schemes);
  }
  options.protect_layers = protect_layers;
  options.sparse_v = sparse_v;
  options.sparse_pages = sparse_pages;
  options.two_phase = two_phase;
  options.protection = {.sink_tokens = protect_sinks, .recent_tokens = recent_tokens, .codecs = {}};
  const auto parsed_storage = ParseStorage(storage);
  if (!parsed_storage.ok())
    return WrongCommandLine("--kv-storage " + storage + ": " + parsed_storage.status().message());
  options.storage = *parsed_storage;
  const auto parsed_rotate = ParseKvRotate(rotate);
  if (!parsed_rotate.ok())
    return WrongCommandLine("--kv-rotate " + rotate + ": " + parsed_rotate.status().message());
  options.rotate = *parsed_rotate;
  options.center = center != "off";
  if (options.center) options.center_file = center;
  options.block_tokens = block_tokens;
  options.rewind_tokens = rewind_tokens;
  options.max_context = max_context;
  options.window_tokens = window_tokens;
  options.sink_tokens = sink_tokens;
  return options;
}

Result<CacheOptions> CommonOptions::Cache() const {
  const bool is_auto = IsAutoCache(kv_cache);
  if (is_auto) {
    if (const auto kld = ParseAutoCache(kv_cache); !kld.ok()) return kld.status();
  }
  auto options = Shape(is_auto ? kv_cache : "");
  if (!options.ok()) return options;
  if (!kv_cache.empty() && !is_auto) {
    const auto codecs = ParseKvCache(kv_cache);
    if (!codecs.ok()) return codecs.status();
    options->k_codec = codecs->k;
    options->v_codec = codecs->v;
  }
  for (const auto& [text, codec, name] : {std::tuple(&type_k, &options->k_codec, "--cache-type-k"),
                                          std::tuple(&type_v, &options->v_codec, "--cache-type-v")}) {
    if (text->empty()) continue;
    const auto parsed = ParseCodecSpec(*text);
    if (!parsed.ok())
      return WrongCommandLine(std::string(name) + " " + *text + ": " + parsed.status().message());
    *codec = *parsed;
  }
  if (two_phase && !is_auto && !HasIntegerCodec(*options)) {
    return WrongCommandLine("--kv-two-phase: no layer has an integer codec, K:V is " +
                            KvSpecName({options->k_codec, options->v_codec}));
  }
  return options;
}

Result<CacheOptions> CommonOptions::CacheFor(Engine& engine) const {
  auto options = Cache();
  if (!options.ok() || !IsAutoCache(kv_cache)) return options;
  const auto kld = ParseAutoCache(kv_cache);
  if (!kld.ok()) return kld.status();
  const auto scheme = ChooseAutoCache(engine, *options, *kld, auto_text, batch_tokens);
  if (!scheme.ok()) return scheme.status();
  return WithScheme(std::move(*options), *scheme);
}

Result<std::unique_ptr<Engine>> CommonOptions::Load(bool exact) const {
  EngineOptions options;
  options.threads = threads;
  options.exact = exact;
  ProgressBar bar("loading");
  options.load_progress = [&bar](int64_t done, int64_t total) { bar.Show(done, total); };
  return Engine::Load(model, options);
}

void PromptOptions::Add(CLI::App& app, bool with_ids) {
  auto* t = app.add_option_function<std::string>(
      "-p,--prompt",
      [this](const std::string& s) {
        text = s;
        has_text = true;
      },
      "the prompt's text");
  auto* f = app.add_option("-f,--file", file, "a file with the prompt, taken byte for byte")->excludes(t);
  if (with_ids) app.add_option("--tokens", ids, "token ids: 1,2,3 or @FILE")->excludes(t)->excludes(f);
}

Result<std::string> PromptOptions::Text() const {
  if (!file.empty()) return ReadFile(file);
  if (!has_text) return WrongCommandLine("one of -p TEXT or -f FILE is required");
  return text;
}

Result<std::vector<int32_t>> PromptOptions::Tokens(const Engine& engine,
                                                   const TokenizeOptions& options) const {
  if (!ids.empty()) return ParseIds("--tokens", ids);
  if (!has_text && file.empty())
    return WrongCommandLine("one of -p TEXT, -f FILE or --tokens IDS is required");
  auto prompt = Text();
  if (!prompt.ok()) return prompt.status();
  return engine.Tokenize(*prompt, options);
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return IoError("read: cannot open " + path);
  std::string content;
  char buffer[1 << 14];
  // Not through the stream's buffer alone: its errors (a folder) are exceptions, those of read() a state.
  while (in.read(buffer, sizeof buffer) || in.gcount() > 0) {
    content.append(buffer, static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) return IoError("read: cannot read " + path);
  return content;
}

Result<std::pair<int, int>> ParseHeads(const std::string& text) {
  std::string list = text;
  if (const size_t slash = list.find('/'); slash != std::string::npos) list[slash] = ',';
  const auto counts = ParseNumbers("--heads", list);
  if (!counts.ok()) return counts.status();
  if (counts->size() != 2 || counts->front() < 1 || counts->back() < 1 || counts->front() > 4096 ||
      counts->back() > 4096) {
    return WrongCommandLine("--heads " + text + ": wanted Q/KV, each in [1, 4096]");
  }
  return std::pair(static_cast<int>(counts->front()), static_cast<int>(counts->back()));
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> items;
  std::string item;
  for (const char c : text + ",") {
    if (c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      if (!item.empty()) items.push_back(std::move(item));
      item.clear();
    } else {
      item += c;
    }
  }
  return items;
}

Result<std::vector<int64_t>> ParseNumbers(const std::string& option, const std::string& text) {
  std::vector<int64_t> numbers;
  for (const std::string& item : SplitList(text)) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc() || end != item.data() + item.size()) {
      return WrongCommandLine(option + ": '" + item + "' is not a number");
    }
    numbers.push_back(value);
  }
  if (numbers.empty()) return WrongCommandLine(option + ": the list is empty");
  return numbers;
}

Result<std::vector<int32_t>> ParseIds(const std::string& option, const std::string& text) {
  std::string list = text;
  if (text.starts_with("@")) {
    auto content = ReadFile(text.substr(1));
    if (!content.ok()) return content.status();
    list = std::move(*content);
  }
  auto numbers = ParseNumbers(option, list);
  if (!numbers.ok()) return numbers.status();
  std::vector<int32_t> ids;
  for (const int64_t n : *numbers) {
    if (n < 0 || n > INT32_MAX)
      return WrongCommandLine(option + ": " + std::to_string(n) + " is not a token id");
    ids.push_back(static_cast<int32_t>(n));
  }
  return ids;
}

std::string ToJsonText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace holdfast::cli
