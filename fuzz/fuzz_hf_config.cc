// Fuzzes the reader of config.json: a configuration that is let through is within every limit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "models/hf_config.h"

int FuzzHfConfig(const uint8_t* data, size_t size);
int FuzzHfConfig(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const auto config = ParseHfConfig({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  const bool fine =
      config.ok() ? ValidateModelConfig(*config, "fuzz.json").ok() : !config.status().message().empty();
  if (!fine) std::abort();
  return 0;
}

#ifdef HOLDFAST_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return FuzzHfConfig(data, size);
}
#endif
