// Centring vectors: the mean of a model's keys (and values), which integer codecs quantise better without.
//
//   auto centers = holdfast::Calibrate(*engine, tokens, {}).value();
//   holdfast::WriteCenters(*engine, centers, holdfast::DefaultCenterPath(engine->info().path));
//
// From then on every cache of that model with an integer codec uses them, unless CacheOptions say otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/engine.h"
#include "holdfast/output_file.h"
#include "holdfast/status.h"

namespace holdfast {

// Means over positions, a layer: of keys as they are stored, rotated to their positions, and of values.
struct KvCenters {
  struct Layer {
    std::shared_ptr<const std::vector<float>> k;  // [kv_heads, k_dim]
    std::shared_ptr<const std::vector<float>>
        v;  // [kv_heads, v_dim]; null: V stays as it is, or is K's prefix
  };
  std::vector<Layer> layers;
  int64_t tokens = 0;  // that the means are of
};

struct CalibrateOptions {
  int64_t context_tokens = 2048;  // a chunk of the text; shorter where text or model is shorter
  int64_t chunks = 8;             // from the start of the text; 0: all
  // Values too. Not by default: models park attention on a first token whose value is next to zero, and the
  // values' mean makes that row, which carries the most weight, the one that loses the most.
  bool values = false;
  int batch_tokens = 512;
  std::function<void(int64_t done_tokens, int64_t total_tokens)> progress = nullptr;
};

// Runs the text through the model in chunks that start at position 0 (the first token of each is BOS where the model adds
// one). Sums are in double, in the text's order. Errors: kInvalidArgument (no tokens; an option, named with its limit),
// those of the forward pass.
Result<KvCenters> Calibrate(Engine& engine, std::span<const int32_t> tokens, const CalibrateOptions& options);

// Where a model's centres are looked for: `<file>.centers` beside a file, `model.centers` in a folder.
std::string DefaultCenterPath(const std::string& model_path);

// The format of docs/formats/centers.md, bound to this engine's model, as an OutputFile; one that was opened before the
// calibration is finished here. Errors: kInvalidArgument (centres of another shape), kIoError.
Status WriteCenters(const Engine& engine, const KvCenters& centers, const std::string& path);
Status WriteCenters(const Engine& engine, const KvCenters& centers, OutputFile& file);
// Errors, each naming the file: kNotFound, kIoError, kDataLoss (magic, version, sizes, checksum, values),
// kInvalidArgument (of another model).
Result<KvCenters> ReadCenters(const Engine& engine, const std::string& path);

}  // namespace holdfast
