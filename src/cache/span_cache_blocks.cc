// What sequences share of a layer: its blocks by position, taken over by another cache, and what appends cost then.
#include <algorithm>
#include <cassert>

#include "base/checked.h"
#include "base/status_macros.h"
#include "cache/span_cache.h"

namespace holdfast {

BlockId SpanCache::block(int64_t n) const {
  const SlotMap& slots = plan_.slots;
  const int64_t first = n * slots.granule_rows;
  if (first >= length_) return BlockId::kNone;
  // What has been given up stays so after a rewind.
  if (first >= slots.pinned_rows && first < slots.FirstStored(max_length_)) return BlockId::kNone;
  return storage_->shared_blocks()->id(slots.SlotOf(first) / slots.granule_rows);
}

SpanCache::BlockNeed SpanCache::NeededBlocks(int64_t length) const {
  const int64_t rows = plan_.slots.granule_rows;
  const LiveRange live = layout_->live(config_.layout, length, rewind_tokens_);
  return {
      .pinned = CeilDiv(live.pinned_end, rows), .begin = live.begin / rows, .end = CeilDiv(live.end, rows)};
}

Status SpanCache::Adopt(int64_t length, const std::function<BlockId(int64_t n)>& ids) {
  assert(length_ == 0 && storage_->shared_blocks()->count() == 0);
  const SlotMap& slots = plan_.slots;
  const int64_t rows = slots.granule_rows;
  const BlockNeed need = NeededBlocks(length);
  const int64_t pinned = slots.ring_rows == 0 ? need.end : slots.pinned_rows / rows;
  const int64_t ring = slots.ring_rows / rows;
  const int64_t last = need.end - 1;
  for (int64_t slot = 0; slot < CeilDiv(slots.SlotsFor(length), rows); ++slot) {
    // The latest block of positions in this slot.
    const int64_t n = slot < pinned ? slot : slot + (last - slot) / ring * ring;
    const bool needed = n < need.pinned || (n >= need.begin && n < need.end);
    const Status taken =
        needed ? storage_->shared_blocks()->Adopt(ids(n))
               : storage_->MakeWritable(slot * rows, std::min((slot + 1) * rows, slots.SlotsFor(length)),
                                        OldRows::kDead);
    if (taken.ok()) continue;
    storage_->Truncate(0);
    return taken;
  }
  length_ = max_length_ = length;
  return OkStatus();
}

void SpanCache::ShareBlock(int64_t n, BlockId id) {
  assert(block(n) != BlockId::kNone);
  const SlotMap& slots = plan_.slots;
  storage_->shared_blocks()->Replace(slots.SlotOf(n * slots.granule_rows) / slots.granule_rows, id);
}

int64_t SpanCache::AdoptBytes(int64_t length) const {
  const CacheBytes planned = storage_->PlanFor(plan_.slots.SlotsFor(length));
  const BlockNeed need = NeededBlocks(length);
  const int64_t taken = need.end - need.begin + std::min(need.pinned, need.begin);
  return planned.total_bytes() - taken * ArenaBlockBytes(storage_->shared_blocks()->pool().block_bytes());
}

int64_t SpanCache::MostGrowthBytes(int64_t length, SharedWith who) const {
  const int64_t kept = protected_ == nullptr ? 0 : protected_->MostGrowthBytes(length, who);
  if (length <= length_) return kept;
  const CacheBytes planned = storage_->PlanFor(plan_.slots.SlotsFor(length));
  const CacheBytes now = storage_->bytes();
  int64_t growth = planned.total_bytes() - now.total_bytes() + kept;
  const SharedBlocks* blocks = storage_->shared_blocks();
  if (blocks == nullptr) return growth;
  // Blocks that will be written and that others own too are replaced.
  const SlotMap& slots = plan_.slots;
  const int64_t rows = slots.granule_rows;
  const int64_t first = length_ / rows;
  int64_t end = CeilDiv(length, rows);
  if (slots.ring_rows != 0) {  // once around the ring: a second time they are its own
    end = std::min(end, std::max(first, slots.pinned_rows / rows) + slots.ring_rows / rows);
  }
  for (int64_t n = first; n < end; ++n) {
    const int64_t slot = slots.SlotOf(n * rows) / rows;
    if (slot >= blocks->count()) continue;
    const BlockId id = blocks->id(slot);
    const bool shared =
        who == SharedWith::kAnyone ? blocks->pool().shared(id) : blocks->pool().owners(id) > 1;
    if (shared) growth += ArenaBlockBytes(blocks->pool().block_bytes());
  }
  return growth;
}

}  // namespace holdfast
