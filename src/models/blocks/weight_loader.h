// Takes a family's weights from a file in the form the blocks want: matrices packed for the kernels, vectors
// as floats.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "holdfast/status.h"
#include "models/model.h"
#include "models/weight_source.h"
#include "ops/matmul.h"

namespace holdfast {

// A matrix and, where the model has one, its bias.
struct Linear {
  PackedMatrix weight;      // [outputs, inputs]
  std::vector<float> bias;  // [outputs] or empty

  // out[r * out_stride + o] = <x_r, w_o> + bias[o], one of the products of a MatMul call.
  Product To(float* out, int64_t out_stride) const { return Make(out, out_stride, false); }
  // The same, added to out.
  Product AddTo(float* out, int64_t out_stride) const { return Make(out, out_stride, true); }

  int64_t bytes() const { return weight.bytes() + static_cast<int64_t>(bias.size() * sizeof(float)); }

 private:
  Product Make(float* out, int64_t out_stride, bool accumulate) const {
    return {&weight, out, out_stride, bias.empty() ? nullptr : bias.data(), accumulate};
  }
};

// Used while a model is built, then dropped. The first failure ends loading: each call returns it. Names are
// canonical (weight_source.h). Not thread-safe.
class WeightLoader {
 public:
  // All must outlive the loader. options.progress is called after every tensor with the bytes of the file
  // done so far.
  WeightLoader(WeightSource& source, const LoadOptions& options, bool norm_weight_plus_one, ThreadPool& pool);

  // [rows, cols], packed; the file's pages are given back. Errors: kNotFound, kInvalidArgument, with name and
  // shapes.
  Result<PackedMatrix> Matrix(std::string_view name, int64_t rows, int64_t cols);
  // `stem`.weight [rows, cols] and, where with_bias, `stem`.bias [rows].
  Result<Linear> LinearOf(std::string_view stem, int64_t rows, int64_t cols, bool with_bias);
  // A vector of n floats.
  Result<std::vector<float>> Vector(std::string_view name, int64_t n);
  // What a norm multiplies by, [n]: the file's vector, plus one where the file stores it so.
  Result<std::vector<float>> NormWeight(std::string_view name, int64_t n);
  // A vector of n floats, empty where the file has none of that name.
  Result<std::vector<float>> OptionalVector(std::string_view name, int64_t n);

  // Errors: kUnimplemented naming tensors of the file that no block took.
  Status Finish() { return source_.CheckAllTaken(); }

 private:
  void Report(int64_t bytes);

  WeightSource& source_;
  const LoadOptions& options_;
  bool norm_weight_plus_one_;
  ThreadPool& pool_;
  int64_t done_bytes_ = 0;
};

// "blk.3.attn_q": the canonical stem of a layer's tensor.
std::string LayerTensor(int layer, std::string_view stem);

}  // namespace holdfast
