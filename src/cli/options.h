// What several commands take, and how results and errors leave the program.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "holdfast/engine.h"
#include "holdfast/status.h"

namespace holdfast::cli {

using Json = nlohmann::ordered_json;

// A command does its work when the command line has been read; what it returns decides the exit code.
using Action = std::function<Status()>;

// Options with the same names and meaning in every command that has a model.
struct CommonOptions {
  std::string model;
  int threads = 0;
  int64_t max_context = 0;
  int batch_tokens = 512;
  bool json = false;
  std::string kv_cache, type_k, type_v, storage = "contiguous";
  int block_tokens = kDefaultBlockTokens, rewind_tokens = kDefaultRewindTokens;
  int64_t window_tokens = 0, sink_tokens = 0;
  std::string kv_layers, rotate = "auto", center, auto_text;
  int protect_layers = 0;
  int64_t protect_sinks = 0, recent_tokens = 0;
  float sparse_v = 0.0f;
  int64_t sparse_pages = 0;
  bool two_phase = false;

  void AddModel(CLI::App& app);  // -m -t
  void AddBatch(CLI::App& app);  // -b
  void AddShape(CLI::App& app);  // -c and what --kv-* says but for codecs
  void AddSparsePages(CLI::App& app);
  void AddLayers(CLI::App& app);    // codecs of some layers
  void AddCache(CLI::App& app);     // shape, layers and the codecs
  void AddTwoPhase(CLI::App& app);  // for commands that generate
  void AddJson(CLI::App& app);

  // Errors: kInvalidArgument, naming the option; that is a wrong command line (exit 2). With `auto` codecs are f16 yet.
  Result<CacheOptions> Cache() const;
  // What AddShape and AddLayers say. auto_cache: `auto:kld=X` where codecs are chosen so, else empty.
  Result<CacheOptions> Shape(const std::string& auto_cache) const;
  // Those of Cache with the codecs that `auto` chooses for this model, which may take minutes the first time.
  Result<CacheOptions> CacheFor(Engine& engine) const;
  // Loads the model with a progress bar on a terminal.
  Result<std::unique_ptr<Engine>> Load(bool exact = false) const;
};

// `f16`, or `f16:int8` for K and V apart.
Result<KvSpec> ParseKvCache(const std::string& spec);

// Where a prompt comes from: exactly one of -p TEXT, -f FILE, --tokens IDS.
struct PromptOptions {
  std::string text, file, ids;
  bool has_text = false;

  void Add(CLI::App& app, bool with_ids);
  // The text, a file byte for byte. Error kInvalidArgument where not exactly one source is given.
  Result<std::string> Text() const;
  // As tokens: `--tokens` as they are, a text by the model's tokenizer.
  Result<std::vector<int32_t>> Tokens(const Engine& engine, const TokenizeOptions& options) const;
};

// `1,2,3` or `@FILE`, ids separated by commas or white space.
Result<std::vector<int32_t>> ParseIds(const std::string& option, const std::string& text);
Result<std::vector<int64_t>> ParseNumbers(const std::string& option, const std::string& text);
// `Q/KV`, query heads and KV heads, each in [1, 4096].
Result<std::pair<int, int>> ParseHeads(const std::string& text);
std::vector<std::string> SplitList(const std::string& text);
Result<std::string> ReadFile(const std::string& path);

// A wrong value of an option: main turns it into exit code 2.
Status WrongCommandLine(std::string message);
bool IsWrongCommandLine(const Status& status);
// The same where the library itself refused an option of this operation, which its message then begins with.
Status RefusedOption(const Status& status, const std::string& operation);

// JSON text of bytes that may not be UTF-8: invalid sequences become U+FFFD.
std::string ToJsonText(const Json& value);

}  // namespace holdfast::cli
