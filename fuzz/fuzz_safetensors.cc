// Fuzzes the safetensors reader: the tensors of a file that is let through tile its data exactly.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "models/registry.h"
#include "models/safetensors.h"
#include "models/weight_source.h"

namespace holdfast {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace
}  // namespace holdfast

int FuzzSafetensors(const uint8_t* data, size_t size);
int FuzzSafetensors(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = SafetensorsFile::Parse(bytes, "fuzz.safetensors");
  if (!file.ok()) {
    Require(!file.status().message().empty());
    return 0;
  }
  int64_t total = 0;
  for (const SafetensorsTensor& tensor : (*file)->tensors()) {
    Require(!tensor.name.empty() && !tensor.shape.empty() && !tensor.bytes.empty());
    Require(tensor.bytes.data() == bytes.data() + tensor.offset);
    Require(tensor.offset + static_cast<int64_t>(tensor.bytes.size()) <= static_cast<int64_t>(size));
    total += static_cast<int64_t>(tensor.bytes.size());
    for (const ModelFamily* family : AllModelFamilies())
      Require(CanonicalName(*family, tensor.name).size() < 64);
  }
  Require(total <= static_cast<int64_t>(size));
  return 0;
}

#ifdef HOLDFAST_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return FuzzSafetensors(data, size);
}
#endif
