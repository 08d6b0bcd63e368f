#include "cache/layout.h"

namespace holdfast {

#define HOLDFAST_DECLARE_LAYOUT(id, name, symbol) extern const LayoutTraits k##symbol##Layout;
HOLDFAST_LAYOUTS(HOLDFAST_DECLARE_LAYOUT)
#undef HOLDFAST_DECLARE_LAYOUT

namespace {

constexpr const LayoutTraits* kLayouts[] = {
#define HOLDFAST_LAYOUT_ENTRY(id, name, symbol) &k##symbol##Layout,
    HOLDFAST_LAYOUTS(HOLDFAST_LAYOUT_ENTRY)
#undef HOLDFAST_LAYOUT_ENTRY
};

}  // namespace

const LayoutTraits& GetLayout(LayoutId id) {
  return *kLayouts[static_cast<size_t>(id)];
}

std::string_view LayoutName(LayoutId id) {
  return GetLayout(id).name;
}

std::vector<LayoutId> AllLayouts() {
  std::vector<LayoutId> all;
  for (const LayoutTraits* layout : kLayouts) all.push_back(layout->id);
  return all;
}

Result<LayoutId> ParseLayout(std::string_view name) {
  std::string known;
  for (const LayoutTraits* layout : kLayouts) {
    if (name == layout->name) return layout->id;
    known += (known.empty() ? "" : ", ") + std::string(layout->name);
  }
  return InvalidArgument("layout: \"" + std::string(name) + "\" is not one of " + known);
}

}  // namespace holdfast
