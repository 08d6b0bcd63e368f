// full: a query sees every position up to its own; nothing rotates and nothing is given up.
#include <string>

#include "cache/layout.h"

namespace holdfast {
namespace {

Status Check(const LayoutConfig& config) {
  if (config.window_tokens != 0) {
    return InvalidArgument("layout full: window_tokens is " + std::to_string(config.window_tokens) +
                           ", must be 0");
  }
  if (config.sink_tokens != 0) {
    return InvalidArgument("layout full: sink_tokens is " + std::to_string(config.sink_tokens) +
                           ", must be 0");
  }
  return OkStatus();
}

VisibleRange Visible(const LayoutConfig&, int64_t position) {
  return {.begin = 0, .end = position + 1, .sink_end = 0};
}

LiveRange Live(const LayoutConfig&, int64_t length, int64_t) {
  return {.pinned_end = 0, .begin = 0, .end = length};
}

SlotMap Slots(const LayoutConfig&, int64_t, int64_t granule_rows) {
  return {.granule_rows = granule_rows};
}

int64_t MaxAppend(const LayoutConfig&, const SlotMap&, int64_t) {
  return 0;
}

}  // namespace

extern const LayoutTraits kFullLayout;
const LayoutTraits kFullLayout = {
    .id = LayoutId::kFull,
    .name = "full",
    .check = Check,
    .visible = Visible,
    .live = Live,
    .slots = Slots,
    .max_append = MaxAppend,
};

}  // namespace holdfast
