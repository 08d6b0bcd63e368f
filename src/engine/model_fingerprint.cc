#include "engine/model_fingerprint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "base/mapped_file.h"
#include "base/status_macros.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlockBytes = 4096;
constexpr int64_t kBlocks = 1024;

void AddNumber(int64_t number, Sha256Stream& sha) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(static_cast<uint64_t>(number) >> (8 * i));
  sha.Add(bytes);
}

Status AddFile(const std::string& path, Sha256Stream& sha) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  AddNumber(size, sha);
  if (size <= kBlocks * kBlockBytes) {
    sha.Add(bytes);
    return OkStatus();
  }
  for (int64_t i = 0; i < kBlocks; ++i) {
    // The first block starts the file, the last one ends it.
    const int64_t at =
        (size - kBlockBytes) / (kBlocks - 1) * i + (size - kBlockBytes) % (kBlocks - 1) * i / (kBlocks - 1);
    sha.Add(bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(kBlockBytes)));
  }
  return OkStatus();
}

bool IsWeightsOrConfig(const fs::path& file) {
  return file.extension() == ".safetensors" || file.filename() == "config.json";
}

// Not every file of a folder: what Holdfast itself keeps beside a model changes nothing of it.
bool IsOfModel(const fs::path& file) {
  const fs::path name = file.filename();
  return IsWeightsOrConfig(file) || name == "model.safetensors.index.json" || name == "tokenizer.json" ||
         name == "tokenizer.model" || name == "tokenizer_config.json" || name == "special_tokens_map.json" ||
         name == "added_tokens.json";
}

// A file itself, a folder's files that are wanted, by name.
Result<std::vector<std::string>> FilesOfModel(const std::string& path, bool (*wanted)(const fs::path&)) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (wanted(entries->path())) files.push_back(entries->path().string());
  }
  if (error) return IoError("fingerprint: cannot list " + path + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<Sha256> FingerprintOfModel(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfModel(path, IsWeightsOrConfig));
  Sha256Stream sha;
  AddNumber(static_cast<int64_t>(files.size()), sha);
  for (const std::string& file : files) HF_RETURN_IF_ERROR(AddFile(file, sha));
  return sha.Finish();
}

Result<Sha256> Sha256OfFile(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return NotFound("sha256: there is no file " + path);
  if (!fs::is_regular_file(path, error)) return IoError("sha256: " + path + " is no regular file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  // Read, not mapped: a file that somebody cuts short meanwhile is then an error and no signal.
  std::vector<char> buffer(size_t{1} << 20);
  Sha256Stream sha;
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    sha.Add(std::as_bytes(std::span(buffer).first(static_cast<size_t>(in.gcount()))));
  }
  if (!in.eof()) {
    return IoError("sha256: cannot read " + path + ": " + (errno != 0 ? std::strerror(errno) : "read error"));
  }
  return sha.Finish();
}

Result<Sha256> DigestOfModel(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfModel(path, IsOfModel));
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  if (folder && files.empty()) return NotFound("digest: there is no model in " + path);
  Sha256Builder digest("holdfast model", 1);
  for (const std::string& file : files) {
    HF_ASSIGN_OR_RETURN(const Sha256 content, Sha256OfFile(file));
    // Where a folder lies does not matter, nor what a file alone is called.
    digest.AddString("name", folder ? fs::path(file).filename().string() : "").AddDigest("sha256", content);
  }
  return digest.Finish();
}

}  // namespace holdfast
