#include "cli/auto_cache.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "cli/options.h"
#include "cli/progress.h"
#include "holdfast/model_store.h"

namespace holdfast::cli {
namespace {

constexpr const char* kPrefix = "auto:kld=";

// Where choices of this model are looked for, and the first of them that can be written is where they are kept.
std::vector<std::string> Places(const Engine& engine) {
  std::vector<std::string> places = {DefaultAutoSchemePath(engine.info().path)};
  auto fallback = FallbackAutoSchemePath(engine);
  if (fallback.ok()) places.push_back(std::move(*fallback));
  return places;
}

void Print(const AutoScheme& scheme, const std::string& where) {
  std::fprintf(stderr, "auto: kld %.4g on held-out text, %lld bytes a token, %s", scheme.kld_held_out,
               static_cast<long long>(scheme.bytes_per_token), LayerSchemesName(scheme.layers).c_str());
  if (scheme.protection.sink_tokens > 0) {
    std::fprintf(stderr, ", the first %lld rows %s", static_cast<long long>(scheme.protection.sink_tokens),
                 KvSpecName(scheme.protection.codecs).c_str());
  }
  std::fprintf(stderr, " (%s)\n", where.c_str());
}

std::string Keep(const Engine& engine, const AutoKey& key, const AutoScheme& scheme) {
  Status status;
  for (const std::string& place : Places(engine)) {
    const std::filesystem::path folder = std::filesystem::path(place).parent_path();
    std::error_code ignored;
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    status = SaveAutoScheme(engine, key, scheme, place);
    if (status.ok()) return "kept in " + place;
  }
  return "not kept: " + status.message();
}

}  // namespace

bool IsAutoCache(const std::string& spec) {
  return spec == "auto" || spec.starts_with("auto:");
}

Result<double> ParseAutoCache(const std::string& spec) {
  const std::string number = spec.starts_with(kPrefix) ? spec.substr(std::string(kPrefix).size()) : "";
  char* end = nullptr;
  const double kld = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(kld > 0.0) || !std::isfinite(kld)) {
    return WrongCommandLine("--kv-cache " + spec + ": wanted auto:kld=X, X a number > 0, 0.01 say");
  }
  return kld;
}

Result<AutoScheme> ChooseAutoCache(Engine& engine, const CacheOptions& base, double kld,
                                   const std::string& text_file, int batch_tokens) {
  AutoOptions options;
  options.kld = kld;
  options.batch_tokens = batch_tokens;
  std::vector<int32_t> tokens;
  if (!text_file.empty()) {
    auto text = ReadFile(text_file);
    if (!text.ok()) return text.status();
    auto tokenized = engine.Tokenize(*text, {});
    if (!tokenized.ok()) return tokenized.status();
    if (tokenized->empty()) return InvalidArgument("auto: " + text_file + " has no tokens");
    tokens = std::move(*tokenized);
  }
  auto key = MakeAutoKey(engine, tokens, base, options);
  if (!key.ok()) return key.status();
  for (const std::string& place : Places(engine)) {
    auto kept = LoadAutoScheme(engine, *key, base, place);
    if (kept.ok()) {
      Print(*kept, "from " + place);
      return kept;
    }
    if (kept.status().code() != StatusCode::kNotFound) return kept.status();
  }
  std::optional<ProgressBar> bar;
  std::string shown;
  options.progress = [&](std::string_view stage, int64_t done, int64_t total) {
    if (stage != shown) bar.emplace("auto: " + std::string(shown = stage));
    bar->Show(done, total);
  };
  if (tokens.empty()) {
    auto sampled = SampleCalibrationTokens(engine, base, options);
    if (!sampled.ok()) return sampled.status();
    tokens = std::move(*sampled);
  }
  auto scheme = ChooseScheme(engine, tokens, base, options);
  bar.reset();
  if (!scheme.ok()) return scheme.status();
  Print(*scheme, Keep(engine, *key, *scheme));
  return scheme;
}

}  // namespace holdfast::cli
