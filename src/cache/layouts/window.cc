// window: a query sees the last window_tokens positions and the first sink_tokens ones; the rest rotates
// through a ring of window + rewind rows, rounded up to granules.
#include <algorithm>
#include <string>

#include "base/checked.h"
#include "cache/layout.h"

namespace holdfast {
namespace {

Status Check(const LayoutConfig& config) {
  const auto outside = [](const char* field, int64_t value, int64_t low) {
    return InvalidArgument(std::string("layout window: ") + field + " is " + std::to_string(value) +
                           ", must be in [" + std::to_string(low) + ", " + std::to_string(kMaxContextTokens) +
                           "]");
  };
  if (config.window_tokens < 1 || config.window_tokens > kMaxContextTokens) {
    return outside("window_tokens", config.window_tokens, 1);
  }
  if (config.sink_tokens < 0 || config.sink_tokens > kMaxContextTokens) {
    return outside("sink_tokens", config.sink_tokens, 0);
  }
  return OkStatus();
}

VisibleRange Visible(const LayoutConfig& config, int64_t position) {
  const int64_t end = position + 1;
  return {.begin = std::max<int64_t>(0, end - config.window_tokens),
          .end = end,
          .sink_end = std::min(config.sink_tokens, end)};
}

LiveRange Live(const LayoutConfig& config, int64_t length, int64_t rewind_tokens) {
  return {.pinned_end = std::min(config.sink_tokens, length),
          .begin = std::max<int64_t>(0, length - config.window_tokens - rewind_tokens),
          .end = length};
}

SlotMap Slots(const LayoutConfig& config, int64_t rewind_tokens, int64_t granule_rows) {
  return {.pinned_rows = RoundUp(config.sink_tokens, granule_rows),
          .ring_rows = RoundUp(config.window_tokens + rewind_tokens + granule_rows - 1, granule_rows),
          .granule_rows = granule_rows};
}

// The first token appended must find its window after the last one has entered its granule.
int64_t MaxAppend(const LayoutConfig& config, const SlotMap& slots, int64_t length) {
  const int64_t first_needed = std::max(slots.pinned_rows, length - config.window_tokens + 1);
  return (first_needed + slots.ring_rows) / slots.granule_rows * slots.granule_rows - length;
}

}  // namespace

extern const LayoutTraits kWindowLayout;
const LayoutTraits kWindowLayout = {
    .id = LayoutId::kWindow,
    .name = "window",
    .check = Check,
    .visible = Visible,
    .live = Live,
    .slots = Slots,
    .max_append = MaxAppend,
};

}  // namespace holdfast
