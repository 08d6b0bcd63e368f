#include "holdfast/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace holdfast {
namespace {

// Renaming onto a device would put a plain file in its place: for the super-user, /dev/null for everybody.
std::string WritingPath(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  const bool replaceable = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  return replaceable ? path + ".partial" : path;
}

Status WriteFailed(const char* what, const std::string& path) {
  const std::string reason = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
  return IoError("write: cannot " + std::string(what) + " " + path + reason);
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), partial_path_(WritingPath(path_)) {
  errno = 0;
  out_.open(partial_path_, std::ios::binary);
  if (!out_) opened_ = WriteFailed("create", path_);
}

OutputFile::~OutputFile() {
  if (finished_ || partial_path_ == path_) return;
  const bool opened = out_.is_open();
  out_.close();
  if (opened) std::remove(partial_path_.c_str());
}

Status OutputFile::Finish() {
  errno = 0;
  out_.close();
  finished_ = out_ && (partial_path_ == path_ || std::rename(partial_path_.c_str(), path_.c_str()) == 0);
  return finished_ ? OkStatus() : WriteFailed("finish", path_);
}

}  // namespace holdfast
