#include "cli/npy.h"

#include <bit>
#include <cstdio>
#include <filesystem>

namespace holdfast::cli {

static_assert(std::endian::native == std::endian::little, "the header below announces little-endian floats");

namespace {

// Renaming onto a device would put a plain file in its place: for the super-user, /dev/null for everybody.
std::string WritingPath(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  const bool replaceable = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  return replaceable ? path + ".partial" : path;
}

}  // namespace

NpyWriter::NpyWriter(std::string path, int64_t rows, int64_t cols)
    : path_(std::move(path)),
      partial_path_(WritingPath(path_)),
      rows_(rows),
      cols_(cols),
      out_(partial_path_, std::ios::binary) {}

NpyWriter::~NpyWriter() {
  if (finished_ || partial_path_ == path_) return;
  out_.close();
  std::remove(partial_path_.c_str());
}

Result<std::unique_ptr<NpyWriter>> NpyWriter::Create(const std::string& path, int64_t rows, int64_t cols) {
  std::unique_ptr<NpyWriter> writer(new NpyWriter(path, rows, cols));
  if (!writer->out_) return IoError("write: cannot create " + path);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(cols) + "), }";
  constexpr size_t kPreamble = 10;  // magic, version, header length
  constexpr size_t kAlignment = 64;
  header.append(kAlignment - (kPreamble + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  writer->out_.write("\x93NUMPY\x01\x00", 8);
  writer->out_.write(reinterpret_cast<const char*>(&length), 2);
  writer->out_ << header;
  return writer;
}

Status NpyWriter::Append(const float* values, int64_t rows) {
  out_.write(reinterpret_cast<const char*>(values),
             static_cast<std::streamsize>(rows * cols_ * int64_t{sizeof(float)}));
  if (!out_) return IoError("write: cannot write " + path_);
  written_ += rows;
  return OkStatus();
}

Status NpyWriter::Finish() {
  if (written_ != rows_) {
    return Internal("write: " + path_ + " got " + std::to_string(written_) + " rows, announced " +
                    std::to_string(rows_));
  }
  out_.close();
  finished_ = out_ && (partial_path_ == path_ || std::rename(partial_path_.c_str(), path_.c_str()) == 0);
  return finished_ ? OkStatus() : IoError("write: cannot finish " + path_);
}

}  // namespace holdfast::cli
