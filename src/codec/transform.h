// What happens to rows before a quantiser sees them: a constant vector is taken off (centring) and the rest
// is rotated by signed Walsh-Hadamard transforms. Not a property of a codec: kv/ applies it to what it hands
// to cache and attention, and takes it back from the output, so neither of them knows.
//
// With R orthonormal and c constant, stored rows are R(x - c). For scores, <R q, R(k - c)> = <q, k> - <q, c>:
// the same shift for every row of a query, which softmax does not see. For outputs, sum w R(v - c) =
// R(sum w v - (sum w) c). docs/formats/transform.md defines R to the bit; results are the same bits on every
// instruction set.
#pragma once

#include <cstdint>

#include "codec/codec_kernels.h"
#include "codec/kernels/transform_kernels.h"
#include "simd/isa.h"

namespace holdfast {

// K and V are rotated with signs of their own.
enum class RowSide : uint8_t { kKey, kValue };

struct RowTransformSpec {
  RowSide side = RowSide::kKey;
  int dim = 0;  // of a row, 1..kMaxDim
  int prefix =
      0;  // > 0: a latent row, whose first `prefix` values are V too: prefix and rest are rotated apart
  int heads = 1;  // rows of a token; each has a centre of its own
  bool rotate = false;
  const float* center = nullptr;  // [heads, dim], null: none; the caller's, outlives the transform
};

// One side's transform in a layer; the key's of a latent row is its value's too. Cheap to make: factors are
// tables that all share. Const functions are thread-safe.
class RowTransform {
 public:
  RowTransform() = default;  // changes nothing
  explicit RowTransform(const RowTransformSpec& spec);

  bool rotates() const { return count_ > 0; }
  bool centers() const { return spec_.center != nullptr; }
  bool identity() const { return !rotates() && !centers(); }
  int output_dim() const { return spec_.prefix > 0 ? spec_.prefix : spec_.dim; }

  // to = R (rows - c) for rows [tokens, heads, dim]; `to` may be `rows`.
  void ForwardRows(Isa isa, const float* rows, int64_t tokens, float* to) const;
  // to = R q for queries q [rows, dim]; `to` may be `q`.
  void RotateQueries(Isa isa, const float* q, int64_t rows, float* to) const;
  // out = R^T out, in place, for outputs [rows, output_dim()] of attention over transformed rows.
  void RotateOutputsBack(Isa isa, int64_t rows, float* out) const;
  // What such an output lacks of weights that sum to one, before it is rotated back: R c of the values,
  // to [heads, output_dim()].
  void RotatedCenters(Isa isa, float* to) const;

 private:
  void AddBlocks(int first, int dim);

  RowTransformSpec spec_;
  HadamardBlock blocks_[4] = {};  // the prefix's first
  int count_ = 0;
  int output_count_ = 0;  // blocks of the first output_dim() values
};

}  // namespace holdfast
