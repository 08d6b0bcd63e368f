#include "models/registry.h"

#include <string>

namespace holdfast {
namespace {

constexpr ModelFamily kFamilies[] = {
#define HOLDFAST_MODEL_ENTRY(name, load) {name, load},
    HOLDFAST_MODELS(HOLDFAST_MODEL_ENTRY)
#undef HOLDFAST_MODEL_ENTRY
};

}  // namespace

Result<ModelFamily> FindModelFamily(std::string_view architecture) {
  std::string names;
  for (const ModelFamily& family : kFamilies) {
    if (family.name == architecture) return family;
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  return Unimplemented("load model: architecture '" + std::string(architecture) + "', supported are " +
                       names);
}

}  // namespace holdfast
