#include "models/blocks/weight_loader.h"

#include <utility>

#include "base/status_macros.h"

namespace holdfast {

WeightLoader::WeightLoader(WeightSource& source, const LoadOptions& options, bool norm_weight_plus_one,
                           ThreadPool& pool)
    : source_(source), options_(options), norm_weight_plus_one_(norm_weight_plus_one), pool_(pool) {}

void WeightLoader::Report(int64_t bytes) {
  done_bytes_ += bytes;
  if (options_.progress) options_.progress(done_bytes_, source_.total_bytes());
}

Result<PackedMatrix> WeightLoader::Matrix(std::string_view name, int64_t rows, int64_t cols) {
  HF_ASSIGN_OR_RETURN(const Weight weight, source_.Take(name, rows, cols));
  auto packed = PackedMatrix::Pack(weight.type, weight.bytes, rows, cols, options_.exact, pool_);
  if (!packed.ok()) {
    return Status(packed.status().code(),
                  source_.path() + ": tensor " + std::string(name) + ": " + packed.status().message());
  }
  source_.Forget(weight);
  Report(static_cast<int64_t>(weight.bytes.size()));
  return packed;
}

Result<Linear> WeightLoader::LinearOf(std::string_view stem, int64_t rows, int64_t cols, bool with_bias) {
  Linear linear;
  HF_ASSIGN_OR_RETURN(linear.weight, Matrix(std::string(stem) + ".weight", rows, cols));
  if (with_bias) {
    HF_ASSIGN_OR_RETURN(linear.bias, Vector(std::string(stem) + ".bias", rows));
  }
  return linear;
}

Result<std::vector<float>> WeightLoader::Vector(std::string_view name, int64_t n) {
  HF_ASSIGN_OR_RETURN(auto values, source_.TakeVector(name, n));
  Report(n * static_cast<int64_t>(sizeof(float)));
  return values;
}

Result<std::vector<float>> WeightLoader::NormWeight(std::string_view name, int64_t n) {
  HF_ASSIGN_OR_RETURN(auto values, Vector(name, n));
  if (norm_weight_plus_one_) {
    for (float& v : values) v += 1.0f;
  }
  return values;
}

Result<std::vector<float>> WeightLoader::OptionalVector(std::string_view name, int64_t n) {
  if (!source_.Has(name)) return std::vector<float>();
  return Vector(name, n);
}

std::string LayerTensor(int layer, std::string_view stem) {
  return "blk." + std::to_string(layer) + "." + std::string(stem);
}

}  // namespace holdfast
