#include "cli/npy.h"

#include <bit>

namespace holdfast::cli {

static_assert(std::endian::native == std::endian::little, "the header below announces little-endian floats");

NpyWriter::NpyWriter(const std::string& path, int64_t rows, int64_t cols)
    : file_(path), rows_(rows), cols_(cols) {}

Result<std::unique_ptr<NpyWriter>> NpyWriter::Create(const std::string& path, int64_t rows, int64_t cols) {
  std::unique_ptr<NpyWriter> writer(new NpyWriter(path, rows, cols));
  if (Status s = writer->file_.Check(); !s.ok()) return s;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(cols) + "), }";
  constexpr size_t kPreamble = 10;  // magic, version, header length
  constexpr size_t kAlignment = 64;
  header.append(kAlignment - (kPreamble + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  writer->file_.stream().write("\x93NUMPY\x01\x00", 8);
  writer->file_.stream().write(reinterpret_cast<const char*>(&length), 2);
  writer->file_.stream() << header;
  return writer;
}

Status NpyWriter::Append(const float* values, int64_t rows) {
  file_.stream().write(reinterpret_cast<const char*>(values),
                       static_cast<std::streamsize>(rows * cols_ * int64_t{sizeof(float)}));
  if (!file_.stream()) return IoError("write: cannot write " + file_.path());
  written_ += rows;
  return OkStatus();
}

Status NpyWriter::Finish() {
  if (written_ != rows_) {
    return Internal("write: " + file_.path() + " got " + std::to_string(written_) + " rows, announced " +
                    std::to_string(rows_));
  }
  return file_.Finish();
}

}  // namespace holdfast::cli
