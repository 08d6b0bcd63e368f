// Walsh-Hadamard transforms by butterflies: strides of 1 to 8 within a vector, greater ones between vectors.
// 256 values are transformed in registers; longer blocks go on in memory. Strides ascend whatever the way, so
// the bits do not depend on it.
#include "codec/kernels/transform_kernels.h"

#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

constexpr int kLanes = 16;
constexpr int kRegisterValues = 256;

HF_INLINE F32x16 AllButterflies(F32x16 v) {
  return Butterfly<8>(Butterfly<4>(Butterfly<2>(Butterfly<1>(v))));
}

// Blocks of 1 to 8 values: a part of one vector.
HF_INLINE void TransformPart(const float* factors, bool factors_last, int size, float* x) {
  const F32x16 f = LoadFirst(factors, size);
  F32x16 v = LoadFirst(x, size);
  if (!factors_last) v = Mul(v, f);
  if (size > 1) v = Butterfly<1>(v);
  if (size > 2) v = Butterfly<2>(v);
  if (size > 4) v = Butterfly<4>(v);
  if (factors_last) v = Mul(v, f);
  StoreFirst(x, v, size);
}

// `vectors` vectors at x in registers; factors null: none.
template <int vectors>
HF_INLINE void TransformVectors(const float* factors, bool factors_last, float* x) {
  F32x16 v[vectors];
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    v[i] = Load(x + i * kLanes);
    if (factors != nullptr && !factors_last) v[i] = Mul(v[i], Load(factors + i * kLanes));
    v[i] = AllButterflies(v[i]);
  }
#pragma GCC unroll 4
  for (int stride = 1; stride < vectors; stride *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) {
      if ((i & stride) != 0) continue;
      const F32x16 low = v[i], high = v[i + stride];
      v[i] = Add(low, high);
      v[i + stride] = Sub(low, high);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    if (factors != nullptr && factors_last) v[i] = Mul(v[i], Load(factors + i * kLanes));
    Store(x + i * kLanes, v[i]);
  }
}

// Strides of 256 and more, in memory; x holds the transforms of each 256.
HF_INLINE void TransformLong(const float* factors, bool factors_last, int size, float* x) {
  for (int at = 0; at < size; at += kRegisterValues) {
    TransformVectors<16>(factors_last ? nullptr : factors + at, false, x + at);
  }
  for (int stride = kRegisterValues; stride < size; stride *= 2) {
    for (int at = 0; at < size; at += kLanes) {
      if ((at & stride) != 0) continue;
      const F32x16 low = Load(x + at), high = Load(x + at + stride);
      Store(x + at, Add(low, high));
      Store(x + at + stride, Sub(low, high));
    }
  }
  if (!factors_last) return;
  for (int at = 0; at < size; at += kLanes) Store(x + at, Mul(Load(x + at), Load(factors + at)));
}

HF_INLINE void TransformBlock(const HadamardBlock& block, bool factors_last, float* row) {
  float* x = row + block.first;
  switch (block.size) {
    case 16:
      return TransformVectors<1>(block.factors, factors_last, x);
    case 32:
      return TransformVectors<2>(block.factors, factors_last, x);
    case 64:
      return TransformVectors<4>(block.factors, factors_last, x);
    case 128:
      return TransformVectors<8>(block.factors, factors_last, x);
    case 256:
      return TransformVectors<16>(block.factors, factors_last, x);
    default:
      return block.size < 16 ? TransformPart(block.factors, factors_last, block.size, x)
                             : TransformLong(block.factors, factors_last, block.size, x);
  }
}

HF_INLINE void CopyLess(const float* from, const float* center, int dim, float* to) {
  int d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    const F32x16 x = Load(from + d);
    Store(to + d, center == nullptr ? x : Sub(x, Load(center + d)));
  }
  if (d == dim) return;
  const F32x16 x = LoadFirst(from + d, dim - d);
  StoreFirst(to + d, center == nullptr ? x : Sub(x, LoadFirst(center + d, dim - d)), dim - d);
}

void Forward(const HadamardBlock* blocks, int count, const float* from, const float* centers, int heads,
             int64_t rows, int dim, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = to + r * dim;
    const float* center = centers == nullptr ? nullptr : centers + r % heads * dim;
    if (from != to || center != nullptr) CopyLess(from + r * dim, center, dim, row);
    for (int i = 0; i < count; ++i) TransformBlock(blocks[i], false, row);
  }
}

void Backward(const HadamardBlock* blocks, int count, int64_t rows, int dim, float* x) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int i = count - 1; i >= 0; --i) TransformBlock(blocks[i], true, x + r * dim);
  }
}

}  // namespace

extern const TransformKernels kTransformKernels;
const TransformKernels kTransformKernels = {Forward, Backward};

}  // namespace holdfast::HOLDFAST_ISA_NS
