// Products of activations with weights, the other half of decode's speed.
//
// Quantised weights multiply int8 activations (one scale per 32 values of a row, in float, with the block's
// integer sum): block dots are exact integers, and the float additions over blocks have one order, so one row
// and 512 rows give the same bits, as do any number of threads. Float weights multiply float activations,
// summed over K in one order. Weights are repacked once at load so that the sixteen lanes run across outputs;
// the file's pages are then given back, so that weights are resident once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "holdfast/status.h"
#include "ops/elementwise.h"
#include "simd/isa.h"
#include "tensor/dtype.h"

namespace holdfast {

// A weight matrix [rows, cols] (rows = outputs, cols = inputs), repacked for the kernels. Immutable;
// thread-safe.
class PackedMatrix {
 public:
  // data: the file's row-major bytes, rows * RowBytesOf(type, cols) of them. Values are kept exactly: the
  // packed codes and scales are the file's own. `exact`: dequantise to f32 instead, for measuring what
  // quantised products cost. Errors: kInvalidArgument naming what does not fit.
  static Result<PackedMatrix> Pack(DType type, std::span<const std::byte> data, int64_t rows, int64_t cols,
                                   bool exact, ThreadPool& pool);
  PackedMatrix();
  ~PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;

  DType type() const;
  int64_t rows() const;
  int64_t cols() const;
  int64_t bytes() const;             // resident bytes of the packed form
  bool integer_activations() const;  // multiplies int8 activations rather than float ones
  // Row `row` as floats [cols]: an embedding lookup. REQUIRES row in [0, rows).
  void DequantizeRow(int64_t row, float* out) const;

  struct State;
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Input rows [rows, cols] prepared once for any number of products. Keeps its memory between uses.
class Activations {
 public:
  Activations();
  ~Activations();
  Activations(Activations&&) noexcept;
  Activations& operator=(Activations&&) noexcept;

  // Keeps a pointer to x (float products read it) and quantises it as int8 blocks the first time a product
  // needs them. x must stay unchanged until the next Set. REQUIRES cols a multiple of 32 where a product is an
  // integer one.
  void Set(const float* x, int64_t rows, int64_t cols, int64_t stride);
  int64_t rows() const;
  int64_t cols() const;
  int64_t bytes() const;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// One product of a MatMul call: out[r * out_stride + o] = <x_r, w_o> + bias[o].
struct Product {
  const PackedMatrix* weight = nullptr;
  float* out = nullptr;
  int64_t out_stride = 0;
  const float* bias = nullptr;  // [weight->rows()] or null
  bool accumulate = false;  // add to out (a residual) instead of overwriting it: out = out + (product + bias)
  // Integer products: the input as two int8 parts, coarse and fine, some fifteen bits in all, for an output
  // whose error nothing averages out. Twice the dots; the weights are still read once.
  bool two_parts = false;
};

// All products in one parallel region; they share the activations. REQUIRES weight->cols() == x.cols().
void MatMul(Activations& x, std::span<const Product> products, Isa isa, ThreadPool& pool);

// hidden = f(gate) * up of every row, as the input of products with `next` in one part and of no others: the same bits as
// MatMul, GatedActivation and Set. Of more than a few rows and of integer weights a block is quantised as soon as it is
// computed, before its floats have left the cache; gate.out and up.out are then left as they are, else hidden points to
// gate.out. REQUIRES gate and up of one shape and out_stride, overwriting, in one part; next.cols() == their outputs; two
// Activations.
void GatedMatMul(Activations& x, const Product& gate, const Product& up, Activation f,
                 const PackedMatrix& next, Activations& hidden, Isa isa, ThreadPool& pool);

}  // namespace holdfast
