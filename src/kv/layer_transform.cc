#include "kv/layer_transform.h"

#include <algorithm>

#include "base/checked.h"
#include "codec/codec.h"

namespace holdfast {
namespace {

// Fewer tokens than this are not worth waking a thread for, and as many are one task.
constexpr int64_t kTaskTokens = 32;

// run(first, count) over all tokens.
template <typename Run>
void ForTokens(int64_t tokens, ThreadPool& pool, const Run& run) {
  if (tokens <= kTaskTokens) return run(int64_t{0}, tokens);
  const auto task = [&](int64_t i, int) {
    const int64_t first = i * kTaskTokens;
    run(first, std::min(kTaskTokens, tokens - first));
  };
  pool.ParallelFor(CeilDiv(tokens, kTaskTokens), task);
}

RowTransform KeyTransform(const LayerConfig& layer) {
  const RowShape& shape = layer.shape;
  return RowTransform(
      {.side = RowSide::kKey,
       .dim = shape.k_dim,
       .prefix = shape.v_is_prefix_of_k ? shape.v_dim : 0,
       .heads = layer.kv_heads,
       .rotate = RotatesKeys(layer),
       .center = layer.k_transform.center == nullptr ? nullptr : layer.k_transform.center->data()});
}

RowTransform ValueTransform(const LayerConfig& layer) {
  if (layer.shape.v_is_prefix_of_k) return RowTransform();
  return RowTransform(
      {.side = RowSide::kValue,
       .dim = layer.shape.v_dim,
       .heads = layer.kv_heads,
       .rotate = RotatesValues(layer),
       .center = layer.v_transform.center == nullptr ? nullptr : layer.v_transform.center->data()});
}

}  // namespace

bool RotatesKeys(const LayerConfig& layer) {
  return layer.k_transform.rotate || GetCodec(layer.k_codec).always_rotated;
}

bool RotatesValues(const LayerConfig& layer) {
  if (layer.shape.v_is_prefix_of_k) return RotatesKeys(layer);
  return layer.v_transform.rotate || GetCodec(layer.v_codec).always_rotated;
}

LayerTransform::Rows LayerTransform::Apply(const LayerConfig& layer, int64_t tokens, int q_heads,
                                           const float* q, const float* k, const float* v, Isa isa,
                                           ThreadPool& pool) {
  k_ = KeyTransform(layer);
  v_ = ValueTransform(layer);
  latent_ = layer.shape.v_is_prefix_of_k;
  Rows rows = {q, k, v, nullptr, nullptr};
  if (k_.identity() && v_.identity()) return rows;
  const int64_t k_row = int64_t{layer.kv_heads} * layer.shape.k_dim;
  const int64_t v_row = int64_t{layer.kv_heads} * layer.shape.v_dim;
  const int64_t q_row = int64_t{q_heads} * layer.shape.k_dim;
  if (k_.rotates()) q_rows_.resize(static_cast<size_t>(tokens * q_row));
  if (!k_.identity()) k_rows_.resize(static_cast<size_t>(tokens * k_row));
  if (!v_.identity()) v_rows_.resize(static_cast<size_t>(tokens * v_row));
  ForTokens(tokens, pool, [&](int64_t first, int64_t count) {
    if (k_.rotates())
      k_.RotateQueries(isa, q + first * q_row, count * q_heads, q_rows_.data() + first * q_row);
    if (!k_.identity()) k_.ForwardRows(isa, k + first * k_row, count, k_rows_.data() + first * k_row);
    if (!v_.identity()) v_.ForwardRows(isa, v + first * v_row, count, v_rows_.data() + first * v_row);
  });
  MakeCenters(layer, isa);
  if (k_.rotates()) rows.q = q_rows_.data();
  if (!k_.identity()) rows.k = k_rows_.data();
  if (!v_.identity()) rows.v = v_rows_.data();
  if (k_.centers()) rows.k_center = k_centers_.data();
  if (output().centers()) rows.v_center = v_centers_.data();
  return rows;
}

// Anew for every step: it is a thousandth of a small model's token, and keeping them would take an owner that outlives
// batches.
void LayerTransform::MakeCenters(const LayerConfig& layer, Isa isa) {
  const auto heads = static_cast<size_t>(layer.kv_heads);
  if (k_.centers()) {
    k_centers_.resize(heads * static_cast<size_t>(layer.shape.k_dim));
    k_.RotateQueries(isa, layer.k_transform.center->data(), layer.kv_heads, k_centers_.data());
  }
  if (output().centers()) {
    v_centers_.resize(heads * static_cast<size_t>(layer.shape.v_dim));
    output().RotatedCenters(isa, v_centers_.data());
  }
}

void LayerTransform::Restore(int64_t tokens, int q_heads, float* out, Isa isa, ThreadPool& pool) const {
  if (!output().rotates()) return;
  const int64_t row = int64_t{q_heads} * output().output_dim();
  ForTokens(tokens, pool, [&](int64_t first, int64_t count) {
    output().RotateOutputsBack(isa, count * q_heads, out + first * row);
  });
}

}  // namespace holdfast
