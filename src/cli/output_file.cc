#include "cli/output_file.h"

#include <cstdio>
#include <filesystem>
#include <utility>

namespace holdfast::cli {
namespace {

// Renaming onto a device would put a plain file in its place: for the super-user, /dev/null for everybody.
std::string WritingPath(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  const bool replaceable = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  return replaceable ? path + ".partial" : path;
}

}  // namespace

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), partial_path_(WritingPath(path_)), out_(partial_path_, std::ios::binary) {}

OutputFile::~OutputFile() {
  if (finished_ || partial_path_ == path_) return;
  const bool opened = out_.is_open();
  out_.close();
  if (opened) std::remove(partial_path_.c_str());
}

Status OutputFile::Check() const {
  return out_ ? OkStatus() : IoError("write: cannot create " + path_);
}

Status OutputFile::Finish() {
  out_.close();
  finished_ = out_ && (partial_path_ == path_ || std::rename(partial_path_.c_str(), path_.c_str()) == 0);
  return finished_ ? OkStatus() : IoError("write: cannot finish " + path_);
}

}  // namespace holdfast::cli
