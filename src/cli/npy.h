// NumPy's .npy format, version 1.0, little-endian f32.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/output_file.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// Writes an array [rows, cols] a few rows at a time, to an OutputFile.
class NpyWriter {
 public:
  static Result<std::unique_ptr<NpyWriter>> Create(const std::string& path, int64_t rows, int64_t cols);
  Status Append(const float* values, int64_t rows);
  // Error kInternal where fewer or more rows than announced were written.
  Status Finish();

 private:
  NpyWriter(const std::string& path, int64_t rows, int64_t cols);

  OutputFile file_;
  int64_t rows_, cols_, written_ = 0;
};

}  // namespace holdfast::cli
