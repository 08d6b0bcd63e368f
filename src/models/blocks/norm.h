// RMS normalisation with learnt weights (Zhang & Sennrich 2019).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status_macros.h"
#include "models/blocks/forward_pass.h"
#include "models/blocks/weight_loader.h"
#include "ops/elementwise.h"

namespace holdfast {

class Norm {
 public:
  Norm() = default;
  // Takes the vector `name` [dim], by which normalised values are multiplied.
  static Result<Norm> Load(std::string_view name, int64_t dim, float eps, WeightLoader& loader) {
    Norm norm;
    norm.eps_ = eps;
    HF_ASSIGN_OR_RETURN(norm.weight_, loader.NormWeight(name, dim));
    return norm;
  }

  int64_t dim() const { return static_cast<int64_t>(weight_.size()); }
  int64_t bytes() const { return dim() * static_cast<int64_t>(sizeof(float)); }

  // out = norm(x), `rows` rows of dim() floats that follow each other; out may be x.
  void Apply(ForwardPass& pass, const float* x, int64_t rows, float* out) const {
    if (rows > 0)
      RmsNorm(x, dim(), weight_.data(), eps_, rows, dim(), out, dim(), false, pass.isa, pass.pool);
  }
  // out += norm(x).
  void AddTo(ForwardPass& pass, const float* x, int64_t rows, float* out) const {
    if (rows > 0) RmsNorm(x, dim(), weight_.data(), eps_, rows, dim(), out, dim(), true, pass.isa, pass.pool);
  }

 private:
  std::vector<float> weight_;
  float eps_ = 0.0f;
};

}  // namespace holdfast
