#include "oracle.h"

#include <algorithm>
#include <cmath>

#include "codec/codec.h"

namespace holdfast::cube {
namespace {

// A side's transform as the configuration says it; `dim` values at the start of a latent row's prefix or rest
// are transformed as a row of their own.
RowTransform TransformOf(RowSide side, int dim, bool rotate) {
  return RowTransform({.side = side, .dim = dim, .rotate = rotate});
}

// R (row - center), one head's.
void Forward(const RowTransform& transform, const float* center, int dim, float* row) {
  for (int d = 0; d < dim && center != nullptr; ++d) row[d] -= center[d];
  if (transform.rotates()) transform.ForwardRows(ActiveIsa(), row, 1, row);
}

// R^T row + center.
void Back(const RowTransform& transform, const float* center, int dim, float* row) {
  if (transform.rotates()) transform.RotateOutputsBack(ActiveIsa(), 1, row);
  for (int d = 0; d < dim && center != nullptr; ++d) row[d] += center[d];
}

}  // namespace

Token MakeToken(const Setup& setup, uint64_t serial) {
  uint64_t state = setup.seed * 0x9e3779b97f4a7c15u + serial * 0xd1342543de82ef95u;
  // Rows of differing size, so that a row read with its neighbour's scale is seen.
  const float size = std::ldexp(1.0f, static_cast<int>(NextRandom(state) % 4) - 2);
  Token token;
  token.k = RandomValues(state, setup.kv_heads * setup.k_dim, size);
  if (setup.cell.shape == Shape::kSplit) token.v = RandomValues(state, setup.kv_heads * setup.v_dim, size);
  token.q = RandomValues(state, setup.kv_heads * setup.group * setup.k_dim, 1.0f);
  return token;
}

Oracle::Oracle(const Setup& setup) : setup_(setup) {
  const LayerConfig layer = MakeConfig(setup, setup.cell.storage).layers[0];
  k_center_ = layer.k_transform.center;
  v_center_ = layer.v_transform.center;
  const bool rotate_k = Rotates(setup.cell.transform) || GetCodec(setup.cell.k_codec).always_rotated;
  const bool rotate_v = Rotates(setup.cell.transform) || GetCodec(setup.cell.v_codec).always_rotated;
  const bool latent = setup.cell.shape == Shape::kLatent;
  rotates_v_ = latent ? rotate_k : rotate_v;
  k_parts_.push_back({0, TransformOf(RowSide::kKey, latent ? setup.v_dim : setup.k_dim, rotate_k)});
  if (latent && setup.v_dim < setup.k_dim) {
    k_parts_.push_back({setup.v_dim, TransformOf(RowSide::kKey, setup.k_dim - setup.v_dim, rotate_k)});
  }
  v_part_ = {0, TransformOf(RowSide::kValue, setup.v_dim, rotate_v)};
}

void Oracle::Append(Token token) {
  Rows stored = {token.k, token.v};
  Rows decoded;
  decoded.k.resize(token.k.size());
  decoded.v.resize(static_cast<size_t>(setup_.kv_heads * setup_.v_dim));
  Rows kept = decoded;
  for (int head = 0; head < setup_.kv_heads; ++head) {
    TransformHead(head, stored);
    DecodeHead(head, {setup_.cell.k_codec, setup_.cell.v_codec}, stored, decoded);
    DecodeHead(head, kProtectedCodecs, stored, kept);
  }
  for (const float v : decoded.v) largest_v_ = std::max(largest_v_, std::abs(static_cast<double>(v)));
  tokens_.push_back(std::move(token));
  stored_.push_back(std::move(stored));
  decoded_.push_back(std::move(decoded));
  protected_.push_back(std::move(kept));
  max_length_ = std::max(max_length_, length());
}

namespace {

const float* CenterOf(const std::shared_ptr<const std::vector<float>>& center, int head, int dim) {
  return center == nullptr ? nullptr : center->data() + head * dim;
}

}  // namespace

void Oracle::TransformHead(int head, Rows& stored) const {
  const float* k_center = CenterOf(k_center_, head, setup_.k_dim);
  float* k = stored.k.data() + head * setup_.k_dim;
  for (const Part& part : k_parts_) {
    const float* center = k_center == nullptr ? nullptr : k_center + part.first;
    Forward(part.transform, center, part.transform.output_dim(), k + part.first);
  }
  if (setup_.cell.shape == Shape::kLatent) return;
  Forward(v_part_.transform, CenterOf(v_center_, head, setup_.v_dim), setup_.v_dim,
          stored.v.data() + head * setup_.v_dim);
}

// Slot 3 of an otherwise empty tile: quantisation does not depend on place or neighbours.
void Oracle::DecodeHead(int head, const KvSpec& codecs, const Rows& stored, Rows& decoded) {
  const Codec& k_codec = GetCodec(codecs.k);
  const Codec& v_codec = GetCodec(codecs.v);
  const bool latent = setup_.cell.shape == Shape::kLatent;
  const float* k_center = CenterOf(k_center_, head, setup_.k_dim);
  const float* k = stored.k.data() + head * setup_.k_dim;
  float* decoded_k = decoded.k.data() + head * setup_.k_dim;
  float* decoded_v = decoded.v.data() + head * setup_.v_dim;
  std::vector<std::byte> k_tile(static_cast<size_t>(k_codec.k_tile_bytes(setup_.k_dim)));
  k_codec.kernels(ActiveIsa()).encode_k(k, setup_.k_dim, 3, k_tile.data());
  k_codec.decode_k(k_tile.data(), setup_.k_dim, 3, decoded_k);
  NoteLargest(decoded_k, latent ? setup_.v_dim : 0);
  for (const Part& part : k_parts_) {
    const float* center = k_center == nullptr ? nullptr : k_center + part.first;
    Back(part.transform, center, part.transform.output_dim(), decoded_k + part.first);
  }
  if (latent) {
    std::copy(decoded_k, decoded_k + setup_.v_dim, decoded_v);
    return;
  }
  const float* v = stored.v.data() + head * setup_.v_dim;
  std::vector<std::byte> v_tile(static_cast<size_t>(v_codec.v_tile_bytes(setup_.v_dim)));
  v_codec.kernels(ActiveIsa()).encode_v(v, setup_.v_dim, 3, v_tile.data());
  v_codec.decode_v(v_tile.data(), setup_.v_dim, 3, decoded_v);
  NoteLargest(decoded_v, setup_.v_dim);
  Back(v_part_.transform, CenterOf(v_center_, head, setup_.v_dim), setup_.v_dim, decoded_v);
}

// Of values as stored too: rounding is relative to them.
void Oracle::NoteLargest(const float* values, int count) {
  for (int i = 0; i < count; ++i) largest_v_ = std::max(largest_v_, std::abs(static_cast<double>(values[i])));
}

bool Oracle::Sees(int64_t query, int64_t position) const {
  if (position > query) return false;
  switch (setup_.cell.layout) {
    case LayoutId::kFull:
      return true;
    case LayoutId::kWindow:
      return position > query - setup_.window || position < setup_.sinks;
  }
  return false;
}

int64_t Oracle::protected_sinks() const {
  return setup_.cell.layout == LayoutId::kFull ? setup_.protected_sinks : setup_.sinks;
}

bool Oracle::IsProtected(int64_t query, int64_t position) const {
  return setup_.cell.protects && (position < protected_sinks() || position > query - recent());
}

bool Oracle::GaveUpRows() const {
  if (setup_.cell.protects && max_length_ - recent() - setup_.rewind > protected_sinks()) return true;
  switch (setup_.cell.layout) {
    case LayoutId::kFull:
      return false;
    case LayoutId::kWindow:
      return max_length_ - setup_.window - setup_.rewind > setup_.sinks;
  }
  return false;
}

int64_t Oracle::rewindable() const {
  if (!GaveUpRows()) return length();
  return std::max<int64_t>(0, length() - (max_length_ - setup_.rewind));
}

int64_t Oracle::live_rows() const {
  if (setup_.cell.layout == LayoutId::kFull) return length();
  int64_t rows = 0;
  for (int64_t p = 0; p < length(); ++p) {
    if (p < setup_.sinks || p >= length() - setup_.window - setup_.rewind) ++rows;
  }
  return rows;
}

int64_t Oracle::protected_live_rows() const {
  if (!setup_.cell.protects) return 0;
  int64_t rows = 0;
  for (int64_t p = 0; p < length(); ++p) {
    if (p < protected_sinks() || p >= length() - recent() - setup_.rewind) ++rows;
  }
  return rows;
}

void Oracle::Rewind(int64_t n) {
  tokens_.resize(static_cast<size_t>(length() - n));
  stored_.resize(tokens_.size());
  decoded_.resize(tokens_.size());
  protected_.resize(tokens_.size());
}

std::vector<double> Oracle::Attend(int64_t position, double scale) const {
  const int q_heads = setup_.kv_heads * setup_.group;
  std::vector<double> out(static_cast<size_t>(q_heads * setup_.v_dim), 0.0);
  std::vector<double> scores(static_cast<size_t>(position) + 1);
  for (int q_head = 0; q_head < q_heads; ++q_head) {
    const int head = q_head / setup_.group;
    const float* q = token(position).q.data() + q_head * setup_.k_dim;
    double largest = -1e300;
    for (int64_t p = 0; p <= position; ++p) {
      if (!Sees(position, p)) continue;
      const Rows& rows = (IsProtected(position, p) ? protected_ : decoded_)[static_cast<size_t>(p)];
      const float* k = rows.k.data() + head * setup_.k_dim;
      double dot = 0.0;
      for (int d = 0; d < setup_.k_dim; ++d) dot += static_cast<double>(q[d]) * static_cast<double>(k[d]);
      scores[static_cast<size_t>(p)] = scale * dot;
      largest = std::max(largest, scale * dot);
    }
    double* o = out.data() + q_head * setup_.v_dim;
    double sum = 0.0;
    for (int64_t p = 0; p <= position; ++p) {
      if (!Sees(position, p)) continue;
      const double weight = std::exp(scores[static_cast<size_t>(p)] - largest);
      const Rows& rows = (IsProtected(position, p) ? protected_ : decoded_)[static_cast<size_t>(p)];
      const float* v = rows.v.data() + head * setup_.v_dim;
      sum += weight;
      for (int d = 0; d < setup_.v_dim; ++d) o[d] += weight * static_cast<double>(v[d]);
    }
    for (int d = 0; d < setup_.v_dim; ++d) o[d] /= sum;
  }
  return out;
}

}  // namespace holdfast::cube
