// A file that gets its name only when it is complete.
#pragma once

#include <fstream>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Nothing is left of one that is not finished. What is there already and is no plain file (a device, a pipe, a
// link) is written to, not replaced.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Ok once the file could be opened; asked before the work whose result it is to hold. Error kIoError.
  Status Check() const { return opened_; }
  std::ostream& stream() { return out_; }
  const std::string& path() const { return path_; }
  // Error kIoError where anything was not written.
  Status Finish();

 private:
  std::string path_, partial_path_;  // the same where path_ is written to in place
  bool finished_ = false;
  std::ofstream out_;
  Status opened_;
};

}  // namespace holdfast
