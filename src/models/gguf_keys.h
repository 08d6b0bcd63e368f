// The keys of one architecture in a GGUF file: typed, ranged, and remembered, so that those nobody read are
// refused by name.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "models/gguf.h"
#include "ops/elementwise.h"

namespace holdfast {

// Suffixes stand for keys: "block_count" is "llama.block_count". Errors: those of GgufFile's typed reads, and
// kOutOfRange (value and limits).
class GgufKeys {
 public:
  // The file must outlive this.
  GgufKeys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  const GgufFile& file() const { return file_; }
  // A message about this file.
  std::string Where(std::string_view what) const;
  // The whole key. Counts as read.
  std::string Key(std::string_view suffix);
  bool Has(std::string_view suffix) const { return file_.Has(prefix_ + std::string(suffix)); }

  Result<int64_t> Count(std::string_view suffix, int64_t limit);  // 1 to limit
  Result<int64_t> CountOr(std::string_view suffix, int64_t limit, int64_t fallback);
  Result<double> FloatOr(std::string_view suffix, double fallback);
  // A count, or one per layer that are all the same; kUnimplemented where they are not.
  Result<int64_t> UniformCount(std::string_view suffix, int64_t limit, int64_t layers);
  // rope.scaling.*: none or linear; kUnimplemented for others, by name.
  Result<RopeScaling> ReadRopeScaling();

  // Keys that change the mathematics of any architecture, at a value other than that which leaves it as it
  // is: kUnimplemented.
  Status CheckNeutral();
  // kUnimplemented naming a key of the architecture that nobody has read and that is not known to be harmless.
  Status CheckAllRead() const;

 private:
  Result<int64_t> CheckCount(const std::string& key, int64_t value, int64_t limit) const;

  const GgufFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace holdfast
