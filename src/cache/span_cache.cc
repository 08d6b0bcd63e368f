#include "cache/span_cache.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <string>

#include "base/checked.h"
#include "base/status_macros.h"
#include "span/page_bounds.h"

namespace holdfast {
namespace {

std::string Number(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
  return text;
}

// One half (K or V) of the rows of `tokens` tokens.
Status CheckHalf(const Codec& codec, const char* half, int64_t position, int64_t tokens, int heads,
                 RowFormat format, const float* rows) {
  for (int64_t t = 0; t < tokens; ++t) {
    for (int head = 0; head < heads; ++head) {
      const float* row = rows + (t * heads + head) * format.dim;
      const int bad = codec.first_unencodable(row, format);
      if (bad < 0) continue;
      return InvalidArgument(std::string("append: ") + half + " value " + Number(row[bad]) + " at position " +
                             std::to_string(position + t) + ", head " + std::to_string(head) + ", dim " +
                             std::to_string(bad) + ": codec " + std::string(codec.name) +
                             " carries finite values up to " + Number(codec.max_magnitude));
    }
  }
  return OkStatus();
}

// What the page's bounds can carry of K rows: less than f32 and bf16 tiles do.
Status CheckPageBounds(int64_t position, int64_t tokens, int heads, int dim, const float* k) {
  const int64_t row = int64_t{heads} * dim;
  for (int64_t i = 0; i < tokens * row; ++i) {
    if (std::fabs(k[i]) <= kLargestPageBound) continue;
    return InvalidArgument("append: K value " + Number(k[i]) + " at position " +
                           std::to_string(position + i / row) + ", head " + std::to_string(i % row / dim) +
                           ", dim " + std::to_string(i % dim) + ": sparse pages carry values up to " +
                           Number(kLargestPageBound));
  }
  return OkStatus();
}

}  // namespace

SpanCache::SpanCache(const CacheConfig& config, const LayerConfig& layer, std::unique_ptr<Storage> storage,
                     std::unique_ptr<SpanCache> kept)
    : config_(layer),
      layout_(&GetLayout(config_.layout.id)),
      k_codec_(&GetCodec(config_.k_codec)),
      v_codec_(config_.shape.v_is_prefix_of_k ? nullptr : &GetCodec(config_.v_codec)),
      k_kernels_(&k_codec_->kernels(ActiveIsa())),
      v_kernels_(v_codec_ == nullptr ? nullptr : &v_codec_->kernels(ActiveIsa())),
      plan_(MakeLayerPlan(config, layer)),
      max_context_(config.max_context),
      rewind_tokens_(config.rewind_tokens),
      storage_(std::move(storage)),
      protected_(std::move(kept)) {}

SpanCache::SpanCache(const SpanCache& other, std::unique_ptr<Storage> storage,
                     std::unique_ptr<SpanCache> kept)
    : config_(other.config_),
      layout_(other.layout_),
      k_codec_(other.k_codec_),
      v_codec_(other.v_codec_),
      k_kernels_(other.k_kernels_),
      v_kernels_(other.v_kernels_),
      plan_(other.plan_),
      max_context_(other.max_context_),
      rewind_tokens_(other.rewind_tokens_),
      storage_(std::move(storage)),
      protected_(std::move(kept)),
      length_(other.length_),
      max_length_(other.max_length_) {}

Result<std::unique_ptr<SpanCache>> SpanCache::Create(const CacheConfig& config, int layer,
                                                     std::shared_ptr<CacheMemory> memory) {
  return CreateRows(config, config.layers[static_cast<size_t>(layer)], std::move(memory));
}

Result<std::unique_ptr<SpanCache>> SpanCache::CreateRows(const CacheConfig& config, const LayerConfig& layer,
                                                         std::shared_ptr<CacheMemory> memory) {
  std::unique_ptr<SpanCache> kept;
  if (const auto protected_layer = ProtectedLayer(layer)) {
    HF_ASSIGN_OR_RETURN(kept, CreateRows(config, *protected_layer, memory));
  }
  const LayerPlan plan = MakeLayerPlan(config, layer);
  HF_ASSIGN_OR_RETURN(
      std::unique_ptr<Storage> storage,
      GetStorage(config.storage).create(config, plan.tiles, plan.max_slots, std::move(memory)));
  return std::unique_ptr<SpanCache>(new SpanCache(config, layer, std::move(storage), std::move(kept)));
}

int64_t SpanCache::max_append() const {
  const int64_t most = layout_->max_append(config_.layout, plan_.slots, length_);
  if (protected_ == nullptr) return most;
  const int64_t kept = protected_->max_append();
  return most == 0 ? kept : std::min(most, kept);
}

Status SpanCache::Append(int64_t tokens, const float* k, const float* v) {
  HF_RETURN_IF_ERROR(CheckLimits(tokens));
  const int64_t most = max_append();
  if (most != 0 && tokens > most) {
    return OutOfRange("append: " + std::to_string(tokens) + " tokens at length " + std::to_string(length_) +
                      ", a window of " + std::to_string(config_.layout.window_tokens) + " takes at most " +
                      std::to_string(most) + " at once");
  }
  HF_RETURN_IF_ERROR(CheckRows(tokens, k, v));
  HF_RETURN_IF_ERROR(Reserve(tokens));
  EncodeRows(length_, tokens, 0, config_.kv_heads, k, v);
  Advance(tokens);
  return OkStatus();
}

Status SpanCache::CheckLimits(int64_t tokens) const {
  if (tokens < 1)
    return InvalidArgument("append: tokens is " + std::to_string(tokens) + ", must be at least 1");
  if (tokens > max_context_ - length_) {
    return OutOfRange("append: " + std::to_string(tokens) + " tokens at length " + std::to_string(length_) +
                      " pass max_context " + std::to_string(max_context_));
  }
  return OkStatus();
}

Status SpanCache::Reserve(int64_t tokens) {
  HF_RETURN_IF_ERROR(CheckLimits(tokens));
  Status made = MakeRoom(tokens);
  if (made.ok() && protected_ != nullptr) made = protected_->Reserve(tokens);
  if (!made.ok()) TrimToLength();
  return made;
}

// Granule by granule: one that is entered afresh and whose rows of the lap before are dead needs no copy
// where it is shared. Two laps on, every granule of the ring is this sequence's own.
Status SpanCache::MakeRoom(int64_t tokens) {
  const SlotMap& slots = plan_.slots;
  if (slots.ring_rows == 0) return storage_->MakeWritable(length_, length_ + tokens, OldRows::kKeep);
  const int64_t granule = slots.granule_rows;
  const int64_t live_begin = live().begin;
  int64_t begin = length_ / granule * granule;
  const int64_t end = std::min(length_ + tokens, std::max(begin, slots.pinned_rows) + slots.ring_rows);
  for (; begin < end; begin += granule) {
    const int64_t lap_before_end = begin - slots.ring_rows + granule;
    const bool holds_live_rows = begin < length_ || lap_before_end > live_begin;
    const int64_t slot = slots.SlotOf(begin);
    const int64_t slot_end = std::min(slot + granule, slots.SlotsFor(length_ + tokens));
    HF_RETURN_IF_ERROR(
        storage_->MakeWritable(slot, slot_end, holds_live_rows ? OldRows::kKeep : OldRows::kDead));
  }
  return OkStatus();
}

void SpanCache::TrimToLength() {
  storage_->Truncate(plan_.slots.SlotsFor(length_));
  if (protected_ != nullptr) protected_->TrimToLength();
}

Status SpanCache::CheckRows(int64_t tokens, const float* k, const float* v) const {
  if (protected_ != nullptr) HF_RETURN_IF_ERROR(protected_->CheckRows(tokens, k, v));
  HF_RETURN_IF_ERROR(CheckHalf(*k_codec_, "K", length_, tokens, config_.kv_heads, k_format(), k));
  if (config_.sparse_pages > 0) {
    HF_RETURN_IF_ERROR(CheckPageBounds(length_, tokens, config_.kv_heads, config_.shape.k_dim, k));
  }
  if (v_codec_ == nullptr) return OkStatus();
  return CheckHalf(*v_codec_, "V", length_, tokens, config_.kv_heads, v_format(), v);
}

void SpanCache::EncodeRows(int64_t position, int64_t tokens, int head_begin, int head_end, const float* k,
                           const float* v) {
  if (protected_ != nullptr) protected_->EncodeRows(position, tokens, head_begin, head_end, k, v);
  const int k_dim = config_.shape.k_dim;
  const int v_dim = config_.shape.v_dim;
  const int64_t heads = config_.kv_heads;
  for (int64_t done = 0; done < tokens;) {
    const int64_t slot = plan_.slots.SlotOf(position + done);
    const TileRun run = storage_->Locate(slot);
    const int in_tile = static_cast<int>(slot % kTileRows);
    const int rows = static_cast<int>(std::min<int64_t>(tokens - done, kTileRows - in_tile));
    for (int head = head_begin; head < head_end; ++head) {
      std::byte* k_tile = run.k + head * run.k_head_stride_bytes;
      for (int i = 0; i < rows; ++i) {
        k_kernels_->encode_k(k + ((done + i) * heads + head) * k_dim, k_format(), in_tile + i, k_tile);
      }
      if (run.bounds != nullptr && in_tile + rows == kTileRows) {
        WritePageBounds(config_.k_codec, k_dim, k_tile, run.bounds + head * run.bounds_head_stride_bytes);
      }
      if (v_codec_ == nullptr) continue;
      std::byte* v_tile = run.v + head * run.v_head_stride_bytes;
      for (int i = 0; i < rows; ++i) {
        v_kernels_->encode_v(v + ((done + i) * heads + head) * v_dim, v_format(), in_tile + i, v_tile);
      }
    }
    done += rows;
  }
}

void SpanCache::Advance(int64_t tokens) {
  assert(max_append() == 0 || tokens <= max_append());
  length_ += tokens;
  max_length_ = std::max(max_length_, length_);
  if (protected_ != nullptr) protected_->Advance(tokens);
}

int64_t SpanCache::rewindable() const {
  const LiveRange most = layout_->live(config_.layout, max_length_, rewind_tokens_);
  const int64_t floor = most.everything() ? 0 : max_length_ - rewind_tokens_;
  const int64_t most_tokens = std::max<int64_t>(0, length_ - floor);
  return protected_ == nullptr ? most_tokens : std::min(most_tokens, protected_->rewindable());
}

Status SpanCache::Rewind(int64_t n) {
  if (n < 0 || n > length_) {
    return InvalidArgument("rewind: " + std::to_string(n) + " tokens, must be in [0, " +
                           std::to_string(length_) + "], the length");
  }
  if (n > rewindable()) {
    return FailedPrecondition("rewind: " + std::to_string(n) + " tokens from length " +
                              std::to_string(length_) + ", at most " + std::to_string(rewindable()) +
                              " can be taken back: the window has given up older rows");
  }
  if (protected_ != nullptr) HF_RETURN_IF_ERROR(protected_->Rewind(n));
  length_ -= n;
  TrimToLength();
  return OkStatus();
}

void SpanCache::Clear() {
  if (protected_ != nullptr) protected_->Clear();
  length_ = 0;
  max_length_ = 0;
  TrimToLength();
}

Result<std::unique_ptr<SpanCache>> SpanCache::Fork() const {
  std::unique_ptr<SpanCache> kept;
  if (protected_ != nullptr) {
    HF_ASSIGN_OR_RETURN(kept, protected_->Fork());
  }
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Storage> storage, storage_->Fork());
  return std::unique_ptr<SpanCache>(new SpanCache(*this, std::move(storage), std::move(kept)));
}

int64_t SpanCache::live_bytes() const {
  const int64_t kept = protected_ == nullptr ? 0 : protected_->live_bytes();
  return live().rows() * plan_.tiles.BytesForRows(kTileRows) / kTileRows + kept;
}

CacheBytes SpanCache::bytes() const {
  CacheBytes sum = storage_->bytes();
  if (protected_ != nullptr) sum += protected_->bytes();
  return sum;
}

VisibleRange SpanCache::visible(int64_t position) const {
  VisibleRange range = layout_->visible(config_.layout, position);
  if (protected_ == nullptr) return range;
  const VisibleRange kept = protected_->visible(position);
  range.end = kept.begin;
  range.begin = std::clamp(range.begin, std::min(kept.sink_end, range.end), range.end);
  range.sink_end = 0;
  return range;
}

void SpanCache::AppendSpans(int64_t first_query, std::vector<Span>& spans) const {
  const VisibleRange first = layout_->visible(config_.layout, first_query);
  assert(std::max(first.begin, plan_.slots.pinned_rows) >= plan_.slots.FirstStored(length_));
  // The sinks of the last query are the sinks of all; what the window covers of them is not listed twice.
  const int64_t sink_end = length_ == 0 ? 0 : layout_->visible(config_.layout, length_ - 1).sink_end;
  AppendRunsOf(0, std::min(sink_end, first.begin), spans);
  AppendRunsOf(first.begin, length_, spans);
}

void SpanCache::AppendLiveSpans(std::vector<Span>& spans) const {
  const LiveRange rows = live();
  AppendRunsOf(0, std::min(rows.pinned_end, rows.begin), spans);
  AppendRunsOf(rows.begin, rows.end, spans);
}

void SpanCache::AppendRunsOf(int64_t begin, int64_t end, std::vector<Span>& spans) const {
  const SlotMap& slots = plan_.slots;
  while (begin < end) {
    const int64_t slot = slots.SlotOf(begin);
    const TileRun run = storage_->Locate(slot);
    int64_t rows = std::min(end - begin, run.end_slot - slot);
    if (slots.ring_rows != 0) {
      // Slots and positions part where the pinned rows end and where the ring starts over.
      const int64_t turn =
          begin < slots.pinned_rows ? slots.pinned_rows : slots.pinned_rows + slots.ring_rows;
      rows = std::min(rows, turn - slot);
    }
    spans.push_back({.begin = begin,
                     .rows = rows,
                     .k = run.k,
                     .v = run.v,
                     .k_head_stride_bytes = run.k_head_stride_bytes,
                     .v_head_stride_bytes = run.v_head_stride_bytes,
                     .bounds = run.bounds,
                     .bounds_head_stride_bytes = run.bounds_head_stride_bytes});
    begin += rows;
  }
}

}  // namespace holdfast
