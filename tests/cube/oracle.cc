#include "oracle.h"

#include <algorithm>
#include <cmath>

#include "codec/codec.h"

namespace holdfast::cube {
namespace {

// splitmix64 (Steele, Lea, Flood 2014).
uint64_t Next(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Values in [-scale, scale).
std::vector<float> Fill(uint64_t& state, int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = (static_cast<float>(Next(state) >> 40) / 8388608.0f - 1.0f) * scale;
  }
  return values;
}

}  // namespace

Token MakeToken(const Setup& setup, uint64_t serial) {
  uint64_t state = setup.seed * 0x9e3779b97f4a7c15u + serial * 0xd1342543de82ef95u;
  // Rows of differing size, so that a row read with its neighbour's scale is seen.
  const float size = std::ldexp(1.0f, static_cast<int>(Next(state) % 4) - 2);
  Token token;
  token.k = Fill(state, setup.kv_heads * setup.k_dim, size);
  if (setup.cell.shape == Shape::kSplit) token.v = Fill(state, setup.kv_heads * setup.v_dim, size);
  token.q = Fill(state, setup.kv_heads * setup.group * setup.k_dim, 1.0f);
  return token;
}

void Oracle::Append(Token token) {
  const Codec& k_codec = GetCodec(setup_.cell.k_codec);
  const Codec& v_codec = GetCodec(setup_.cell.v_codec);
  // Slot 3 of an otherwise empty tile: quantisation does not depend on place or neighbours.
  std::vector<std::byte> k_tile(static_cast<size_t>(k_codec.k_tile_bytes(setup_.k_dim)));
  std::vector<std::byte> v_tile(static_cast<size_t>(v_codec.v_tile_bytes(setup_.v_dim)));
  Decoded decoded;
  decoded.k.resize(token.k.size());
  decoded.v.resize(static_cast<size_t>(setup_.kv_heads * setup_.v_dim));
  const Isa isa = ActiveIsa();
  for (int head = 0; head < setup_.kv_heads; ++head) {
    float* k = decoded.k.data() + head * setup_.k_dim;
    float* v = decoded.v.data() + head * setup_.v_dim;
    k_codec.kernels(isa).encode_k(token.k.data() + head * setup_.k_dim, setup_.k_dim, 3, k_tile.data());
    k_codec.decode_k(k_tile.data(), setup_.k_dim, 3, k);
    if (setup_.cell.shape == Shape::kLatent) {
      std::copy(k, k + setup_.v_dim, v);
      continue;
    }
    v_codec.kernels(isa).encode_v(token.v.data() + head * setup_.v_dim, setup_.v_dim, 3, v_tile.data());
    v_codec.decode_v(v_tile.data(), setup_.v_dim, 3, v);
  }
  for (const float v : decoded.v) largest_v_ = std::max(largest_v_, std::abs(static_cast<double>(v)));
  tokens_.push_back(std::move(token));
  decoded_.push_back(std::move(decoded));
  max_length_ = std::max(max_length_, length());
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

bool Oracle::GaveUpRows() const {
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

void Oracle::Rewind(int64_t n) {
  tokens_.resize(static_cast<size_t>(length() - n));
  decoded_.resize(tokens_.size());
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
      const float* k = decoded_[static_cast<size_t>(p)].k.data() + head * setup_.k_dim;
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
      const float* v = decoded_[static_cast<size_t>(p)].v.data() + head * setup_.v_dim;
      sum += weight;
      for (int d = 0; d < setup_.v_dim; ++d) o[d] += weight * static_cast<double>(v[d]);
    }
    for (int d = 0; d < setup_.v_dim; ++d) o[d] /= sum;
  }
  return out;
}

}  // namespace holdfast::cube
