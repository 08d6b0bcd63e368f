// A layout: which positions a query sees, which rows stay live, and which slot a position takes.
//
// Adding one: src/cache/layouts/<name>.cc and a line in include/holdfast/layout_list.h.
#pragma once

#include <cstdint>

#include "holdfast/cache_config.h"
#include "span/span.h"

namespace holdfast {

// Maps absolute positions to slots. Slots are numbered from 0; position p and its slot agree modulo 16, so
// that tiles stay aligned to positions. Positions below pinned_rows keep their own slot for ever; later ones
// rotate through ring_rows slots (0: never rotate). Both are multiples of granule_rows, the rows that a
// storage replaces together: entering a granule gives up everything its slots held a lap before. See docs/adr
// on slots and granules.
struct SlotMap {
  int64_t pinned_rows = 0;
  int64_t ring_rows = 0;
  int64_t granule_rows = 16;

  int64_t SlotOf(int64_t position) const {
    if (ring_rows == 0 || position < pinned_rows) return position;
    return pinned_rows + (position - pinned_rows) % ring_rows;
  }
  // Slots in use once `length` positions have been stored.
  int64_t SlotsFor(int64_t length) const {
    if (ring_rows == 0 || length <= pinned_rows + ring_rows) return length;
    return pinned_rows + ring_rows;
  }
  // Of the positions that rotate, the first whose row is still stored once `length` positions have been
  // written.
  int64_t FirstStored(int64_t length) const {
    if (ring_rows == 0) return 0;
    const int64_t written_granules_end = (length + granule_rows - 1) / granule_rows * granule_rows;
    return written_granules_end - ring_rows > pinned_rows ? written_granules_end - ring_rows : pinned_rows;
  }
};

// Rows [0, pinned_end) and [begin, end) are live; they may overlap.
struct LiveRange {
  int64_t pinned_end = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t rows() const { return end - begin + (pinned_end < begin ? pinned_end : begin); }
  bool everything() const { return begin <= pinned_end; }  // nothing has been given up
};

struct LayoutTraits {
  LayoutId id;
  const char* name;
  // Checks the layout's own parameters; the message names field, value and limit.
  Status (*check)(const LayoutConfig& config);
  // What the query at `position` sees.
  VisibleRange (*visible)(const LayoutConfig& config, int64_t position);
  // What is live at length `length`: the window, the rewind_tokens rows before it that a rewind brings back
  // into the window, and the sinks. A rule of positions alone, whatever a storage rounds up to. W = 8, no
  // rewind, length 8: [0, 8); length 9: [1, 9).
  LiveRange (*live)(const LayoutConfig& config, int64_t length, int64_t rewind_tokens);
  // granule_rows: a multiple of 16. The ring has room for the live rows and a granule less one more, so that
  // a granule about to be entered holds no live row.
  SlotMap (*slots)(const LayoutConfig& config, int64_t rewind_tokens, int64_t granule_rows);
  // Most tokens that may be appended at once at length `length` so that each of them still finds all it sees;
  // 0 = any number.
  int64_t (*max_append)(const LayoutConfig& config, const SlotMap& slots, int64_t length);
};

const LayoutTraits& GetLayout(LayoutId id);

}  // namespace holdfast
