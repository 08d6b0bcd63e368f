#include "engine/model_fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/mapped_file.h"
#include "base/status_macros.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlockBytes = 4096;
constexpr int64_t kBlocks = 1024;

class Sha256Stream {
 public:
  Sha256Stream() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void Add(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  void Add(int64_t number) {
    std::byte bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(static_cast<uint64_t>(number) >> (8 * i));
    Add(bytes);
  }
  Sha256 Finish() {
    Sha256 digest;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
    return digest;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

Status AddFile(const std::string& path, Sha256Stream& sha) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  sha.Add(size);
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

Result<std::vector<std::string>> FilesOfModel(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::path& file = entries->path();
    if (file.extension() == ".safetensors" || file.filename() == "config.json")
      files.push_back(file.string());
  }
  if (error) return IoError("fingerprint: cannot list " + path + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Sha256 Sha256Of(std::span<const std::byte> bytes) {
  Sha256Stream sha;
  sha.Add(bytes);
  return sha.Finish();
}

Result<Sha256> FingerprintOfModel(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfModel(path));
  Sha256Stream sha;
  sha.Add(static_cast<int64_t>(files.size()));
  for (const std::string& file : files) HF_RETURN_IF_ERROR(AddFile(file, sha));
  return sha.Finish();
}

}  // namespace holdfast
