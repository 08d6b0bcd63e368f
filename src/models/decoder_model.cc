#include "models/decoder_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/status_macros.h"

namespace holdfast {
namespace {

LayerTrace TraceOf(int layer, const float* x, int64_t rows, int64_t dim) {
  LayerTrace t{};
  t.layer = layer;
  t.tokens = rows;
  t.dim = dim;
  t.min = std::numeric_limits<float>::infinity();
  t.max = -t.min;
  double sum = 0.0;
  int64_t finite = 0;
  for (int64_t i = 0; i < rows * dim; ++i) {
    if (std::isnan(x[i])) {
      ++t.nans;
    } else if (std::isinf(x[i])) {
      ++t.infs;
    } else {
      t.min = std::min(t.min, x[i]);
      t.max = std::max(t.max, x[i]);
      sum += x[i];
      ++finite;
    }
  }
  if (finite == 0) t.min = t.max = 0.0f;
  t.mean = finite > 0 ? sum / static_cast<double>(finite) : 0.0;
  return t;
}

// A model whose arithmetic has broken down says so, rather than hand out numbers that mean nothing.
Status CheckFinite(const float* x, int64_t rows, int64_t dim, std::span<const int64_t> tokens) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < dim; ++i) {
      const float value = x[row * dim + i];
      if (std::isfinite(value)) continue;
      return DataLoss("forward: residual value " + std::to_string(i) + " of token " +
                      std::to_string(tokens[static_cast<size_t>(row)]) + " of the batch is " +
                      std::to_string(value) + " after the last layer, it must be finite");
    }
  }
  return OkStatus();
}

}  // namespace

DecoderModel::DecoderModel(ModelConfig config, ThreadPool& pool)
    : Model(std::move(config)), pool_(pool), isa_(ActiveIsa()), scratch_(config_) {}

Status DecoderModel::LoadEnds(WeightLoader& loader, std::span<const float> freq_factors) {
  HF_ASSIGN_OR_RETURN(scratch_.rotary, RotaryEmbeddings::Create(config_, freq_factors));
  HF_ASSIGN_OR_RETURN(embedding_, Embedding::Load(config_, loader));
  HF_ASSIGN_OR_RETURN(head_, LmHead::Load(config_, embedding_, loader));
  return OkStatus();
}

Status DecoderModel::CheckCall(std::span<const int32_t> tokens, const KvBatch& kv,
                               std::span<const int64_t> logits_rows) const {
  if (static_cast<int64_t>(tokens.size()) != kv.tokens()) {
    return InvalidArgument("forward: " + std::to_string(tokens.size()) + " tokens, the batch has " +
                           std::to_string(kv.tokens()));
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config_.vocab_size) {
      return OutOfRange("forward: token " + std::to_string(tokens[i]) + " at index " + std::to_string(i) +
                        ", the vocabulary has " + std::to_string(config_.vocab_size));
    }
  }
  int64_t previous = -1;
  for (const int64_t row : logits_rows) {
    if (row <= previous || row >= kv.tokens()) {
      return InvalidArgument("forward: logits row " + std::to_string(row) + " after row " +
                             std::to_string(previous) + ", rows ascend below " + std::to_string(kv.tokens()));
    }
    previous = row;
  }
  return OkStatus();
}

Status DecoderModel::ForwardInParts(std::span<const int32_t> tokens, KvBatch& kv,
                                    std::span<const int64_t> logits_rows, const LogitsParts& parts,
                                    const LayerTraceSink* trace) {
  HF_RETURN_IF_ERROR(CheckCall(tokens, kv, logits_rows));
  HF_RETURN_IF_ERROR(scratch_.Reserve(kv.tokens()));
  ForwardPass pass(config_, kv, logits_rows, scratch_, isa_, pool_);
  const auto report = [&](int layer) {
    if (trace != nullptr) (*trace)(TraceOf(layer, scratch_.residual(), pass.rows(), config_.hidden_dim));
  };
  if (trace != nullptr) pass.KeepAllRows();
  scratch_.rotary.Prepare(kv.positions(), pool_);
  embedding_.Run(pass, tokens);
  report(-1);
  for (int layer = 0; layer < config_.layers; ++layer) {
    HF_RETURN_IF_ERROR(RunLayer(layer, pass));
    report(layer);
  }
  pass.NarrowToWanted();
  HF_RETURN_IF_ERROR(CheckFinite(scratch_.residual(), pass.rows(), config_.hidden_dim, logits_rows));
  for (int64_t first = 0; first < pass.rows(); first += parts.rows) {
    const int64_t count = std::min(parts.rows, pass.rows() - first);
    head_.Run(pass, first, count, parts.logits);
    if (parts.take) parts.take(first, count);
  }
  return OkStatus();
}

}  // namespace holdfast
