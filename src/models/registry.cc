#include "models/registry.h"

namespace holdfast {
namespace {

constexpr const ModelFamily* kFamilies[] = {
#define HOLDFAST_MODEL_ENTRY(family) &family,
    HOLDFAST_MODELS(HOLDFAST_MODEL_ENTRY)
#undef HOLDFAST_MODEL_ENTRY
};

}  // namespace

std::span<const ModelFamily* const> AllModelFamilies() {
  return kFamilies;
}

const ModelFamily* FindModelFamily(std::string_view name) {
  for (const ModelFamily* family : kFamilies) {
    if (family->name == name) return family;
  }
  return nullptr;
}

std::string ModelFamilyNames() {
  std::string names;
  for (const ModelFamily* family : kFamilies)
    names += (names.empty() ? "" : ", ") + std::string(family->name);
  return names;
}

}  // namespace holdfast
