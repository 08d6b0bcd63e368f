// A decoder-only language model: weights and a forward pass over a flat batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "holdfast/status.h"
#include "kv/batch.h"
#include "models/model_config.h"
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"

namespace holdfast {

// Per-layer statistics of the residual stream, for `inspect --layer-trace`.
struct LayerTrace {
  int layer;  // -1: embeddings; layers: after the layer
  int64_t tokens, dim;
  float min, max;
  double mean;
  int64_t nans, infs;
};
using LayerTraceSink = std::function<void(const LayerTrace&)>;

struct LogitsParts {
  float* logits = nullptr;  // [rows, vocab_size]
  int64_t rows = 0;         // at least 1 where any are wanted
  // logits hold those of logits_rows[first, first + count); may be empty where one part is all.
  std::function<void(int64_t first, int64_t count)> take;
};

// Weights are immutable; a Forward uses scratch of the model's own, so one Forward at a time.
class Model {
 public:
  virtual ~Model() = default;
  const ModelConfig& config() const { return config_; }
  virtual int64_t weight_bytes() const = 0;
  virtual int64_t scratch_bytes() const = 0;

  // tokens [kv.tokens()] at kv.positions(). logits_rows: ascending indices of tokens whose logits are wanted; logits
  // [logits_rows.size(), vocab_size]. Attends every layer of kv; the caller commits. Errors: kOutOfRange (a token id
  // outside the vocabulary, named before anything is computed) and those of KvBatch::Attend.
  Status Forward(std::span<const int32_t> tokens, KvBatch& kv, std::span<const int64_t> logits_rows,
                 float* logits, const LayerTraceSink* trace = nullptr) {
    const auto all = static_cast<int64_t>(logits_rows.size());
    return ForwardInParts(tokens, kv, logits_rows, {.logits = logits, .rows = all, .take = nullptr}, trace);
  }
  // The same with no more than parts.rows rows of logits at a time: those of all of a prompt's tokens take hundreds of
  // megabytes. The same bits.
  virtual Status ForwardInParts(std::span<const int32_t> tokens, KvBatch& kv,
                                std::span<const int64_t> logits_rows, const LogitsParts& parts,
                                const LayerTraceSink* trace) = 0;

 protected:
  explicit Model(ModelConfig config) : config_(std::move(config)) {}
  ModelConfig config_;
};

struct LoadOptions {
  bool exact = false;  // weights dequantised to f32, activations in f32
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;  // may be empty
};

struct LoadedModel {
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null where the format's tokenizer is not supported yet
  std::string tokenizer_missing;         // why, then
  ChatFormat chat_format = ChatFormat::kNone;
  std::string chat_template;
};

// path: a GGUF file or a Hugging Face folder. Errors name the file, field, value and limit.
Result<LoadedModel> LoadModel(const std::string& path, const LoadOptions& options, ThreadPool& pool);

// The config alone, weights unread.
Result<ModelConfig> LoadModelConfig(const std::string& path);

// The cache layers this model needs, codecs and storage as given by the caller later: shape, layout and heads filled in.
std::vector<LayerConfig> CacheLayers(const ModelConfig& config);

}  // namespace holdfast
