// The cheapest codecs, a layer and a side, whose KL divergence against f16 meets a target.
//
//   const AutoOptions options{.kld = 0.01};
//   auto tokens = SampleCalibrationTokens(*engine, {}, options).value();
//   auto scheme = ChooseScheme(*engine, tokens, {}, options).value();
//   auto session = engine->NewSession(WithScheme({}, scheme));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/engine.h"
#include "holdfast/status.h"

namespace holdfast {

struct AutoOptions {
  double kld = 0.0;               // the target, nats a token, > 0
  int64_t ranking_tokens = 512;   // a chunk of the text that ranks layers and codecs
  int64_t ranking_chunks = 1;     // from the start of the text
  int64_t context_tokens = 1024;  // a chunk of the text behind, which the choice has to meet the target on
  int64_t held_out_chunks = 2;    // fewer, at least 1, where the text is shorter
  int batch_tokens = 512;
  // stage: "sampling", "ranking", "checking".
  std::function<void(std::string_view stage, int64_t done_tokens, int64_t total_tokens)> progress = nullptr;
};

struct AutoScheme {
  std::vector<LayerScheme> layers;  // every layer of the model, neighbours with equal codecs together
  ProtectionConfig protection;
  double kld_calibration = 0, kld_held_out = 0;  // measured; 0: every layer is f16
  int64_t bytes_per_token = 0;
  friend bool operator==(const AutoScheme&, const AutoScheme&) = default;
};

// Tokens that ChooseScheme can do with, drawn from the model itself at temperature 1 from its BOS (token 1 where it has
// none), a chunk at a time, with fixed seeds: the same every time. Errors: those of sessions.
Result<std::vector<int32_t>> SampleCalibrationTokens(Engine& engine, const CacheOptions& base,
                                                     const AutoOptions& options);

// Layers and sides (K, V) are ranked by what a 2-bit codec costs in each alone, codecs by what each costs in all K and
// in all V. The sum over sides of the product of the two predicts a scheme (divergences this small are nearly additive:
// they are the squares of small independent errors). Steps to a cheaper codec, least divergence a byte first, lead from
// f16 everywhere to 2 bits everywhere; the choice is the furthest point of that path, found by bisection, that measures
// at most 0.65 * kld on the held-out text. The same arguments give the same choice, and a larger kld never more bytes.
//
// The reference attends every row and page: where base leaves some out, that counts against the target, and a target that
// f16 itself does not meet so is refused.
//
// base: everything but codecs; its own protection stays if it has one, otherwise the first 4 rows are protected where
// that measures better. Chunks are no longer than base.max_context or the model's context. Time: 2 * layers + 22 runs of
// the ranking text, some 15 of the held-out text. Errors: kInvalidArgument (kld is not > 0; another option, named with
// its limit; tokens too few, names both; base.layers is not empty), those of MeasureQuality.
Result<AutoScheme> ChooseScheme(Engine& engine, std::span<const int32_t> calibration_tokens,
                                const CacheOptions& base, const AutoOptions& options);

// base with the scheme's codecs.
CacheOptions WithScheme(CacheOptions base, const AutoScheme& scheme);

// What a choice was made for, besides the model: a saved one is used again for the same only.
struct AutoKey {
  double kld = 0;
  std::string
      conditions;  // one line: options that change what is chosen, a digest of the text and of the centres
};
// calibration_tokens: empty for those of SampleCalibrationTokens. Errors: those of Engine::MakeCacheConfig.
Result<AutoKey> MakeAutoKey(const Engine& engine, std::span<const int32_t> calibration_tokens,
                            const CacheOptions& base, const AutoOptions& options);

// Where a model's choices are kept: `<file>.kv-auto.json` beside a file, `model.kv-auto.json` in a folder.
std::string DefaultAutoSchemePath(const std::string& model_path);
// For models whose folder cannot be written to: in ModelStoreFolder(), named by the model's fingerprint.
Result<std::string> FallbackAutoSchemePath(const Engine& engine);

// Adds the choice to the file, or replaces the one with the same key; one of another model is replaced whole. The file
// has its name only when it is complete. Errors, each naming the file: kIoError, kDataLoss (what is there is no such
// file).
Status SaveAutoScheme(const Engine& engine, const AutoKey& key, const AutoScheme& scheme,
                      const std::string& path);
// base: as for ChooseScheme; a scheme that does not fit it is refused. Errors, each naming the file: kNotFound (no
// file, of another model, none of this key), kIoError, kUnimplemented (a later version), kDataLoss (field, value, limit).
Result<AutoScheme> LoadAutoScheme(const Engine& engine, const AutoKey& key, const CacheOptions& base,
                                  const std::string& path);

}  // namespace holdfast
