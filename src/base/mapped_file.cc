#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace holdfast {
namespace {

std::string ErrnoText(int error) {
  return std::generic_category().message(error);
}

Status OpenError(const std::string& path, int error) {
  std::string message = "open " + path + ": " + ErrnoText(error);
  if (error == ENOENT || error == ENOTDIR) return NotFound(std::move(message));
  return IoError(std::move(message));
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  // Non-blocking so that a FIFO is refused below rather than waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return OpenError(path, errno);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return IoError("stat " + path + ": " + ErrnoText(error));
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return IoError("open " + path + ": not a regular file");
  }
  const auto size = static_cast<int64_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {  // an empty file has nothing to map, and is the reader's to refuse
    data = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      close(fd);
      return IoError("map " + path + ": " + std::to_string(size) + " bytes: " + ErrnoText(error));
    }
  }
  close(fd);
  return std::unique_ptr<MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

void MappedFile::Forget(int64_t offset, int64_t size) const {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  offset = std::clamp<int64_t>(offset, 0, size_);
  size = std::clamp<int64_t>(size, 0, size_ - offset);
  // Only pages that lie wholly inside: the neighbours may still be wanted. The file's last page has no
  // neighbour.
  const int64_t begin = (offset + page - 1) / page * page;
  const int64_t end = offset + size == size_ ? size_ : (offset + size) / page * page;
  if (begin >= end) return;
  madvise(const_cast<std::byte*>(data_) + begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
}

}  // namespace holdfast
