// NumPy's .npy format, version 1.0, little-endian f32.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "holdfast/status.h"

namespace holdfast::cli {

// Writes an array [rows, cols] a few rows at a time. A file gets its name only when it is complete, and
// nothing is left of one that is not. What is there already and is no plain file (a device, a pipe, a link)
// is written to, not replaced.
class NpyWriter {
 public:
  static Result<std::unique_ptr<NpyWriter>> Create(const std::string& path, int64_t rows, int64_t cols);
  ~NpyWriter();
  Status Append(const float* values, int64_t rows);
  // Error kInternal where fewer or more rows than announced were written.
  Status Finish();

 private:
  NpyWriter(std::string path, int64_t rows, int64_t cols);
  std::string path_, partial_path_;  // the same where path_ is written to in place
  int64_t rows_, cols_, written_ = 0;
  bool finished_ = false;
  std::ofstream out_;
};

}  // namespace holdfast::cli
