#include "attention/scratch_limit.h"

#include <algorithm>
#include <atomic>

#include "attention/page_choice.h"
#include "attention/plan.h"
#include "attention/workspace.h"
#include "base/checked.h"
#include "codec/codec.h"
#include "span/page_bounds.h"

namespace holdfast {
namespace {

constexpr int64_t kOutLanes = 16;
constexpr int64_t kEnds = 3;  // chunks that a range may touch at its ends, and the sinks'

// Chunks with rows that the queries of one block see. A block has tokens at successive positions.
int64_t ChunksOf(const LayerConfig& layer, int64_t context, int64_t block_tokens) {
  int64_t rows = context;
  if (layer.layout.id == LayoutId::kWindow) {
    rows = std::min(rows, layer.layout.window_tokens + layer.layout.sink_tokens + block_tokens);
  }
  if (layer.sparse_pages > 0) rows = std::min(rows, layer.sparse_pages * kTileRows);
  int64_t chunks = rows / kChunkRows + kEnds;
  if (!layer.protection.none()) {
    const int64_t kept = layer.protection.recent_tokens + layer.protection.sink_tokens + block_tokens;
    chunks += std::min(context, kept) / kChunkRows + kEnds;
  }
  return chunks;
}

void AddCodecs(const LayerConfig& layer, const KvSpec& codecs, Isa isa, ScratchSizes* sizes) {
  const RowFormat k_format(layer.shape.k_dim, codecs.k.group);
  const RowFormat v_format(layer.shape.v_dim, codecs.v.group);
  const Codec& k = GetCodec(codecs.k);
  sizes->prepared_bytes += k.kernels(isa).key.prepared_bytes(k_format);
  sizes->hole_bytes = std::max(sizes->hole_bytes, k.k_tile_bytes(k_format));
  if (!layer.shape.v_is_prefix_of_k) {
    sizes->hole_bytes = std::max(sizes->hole_bytes, GetCodec(codecs.v).v_tile_bytes(v_format));
  }
}

// Where the layer's queries choose pages. Returns what that adds to the plan.
int64_t AddPages(const LayerConfig& layer, int q_heads, int64_t context, const PlanBound& plan,
                 ScratchSizes* most) {
  if (layer.sparse_pages == 0) return 0;
  const int64_t pages = CeilDiv(context, kTileRows) + 1;
  const int64_t heads = q_heads / layer.kv_heads;
  most->query_halves = std::max(most->query_halves, heads * 2 * PageBoundDims(layer.shape.k_dim));
  most->page_heads = std::max(most->page_heads, heads);
  most->page_stride = std::max(most->page_stride, PageChooser::Stride(pages));
  most->sparse_pages = std::max(most->sparse_pages, layer.sparse_pages);
  most->choosing_groups = std::max(most->choosing_groups, plan.split_groups);
  // Vectors double as they grow.
  return 2 * plan.split_groups * CeilDiv(pages, kPageTaskPages) * static_cast<int64_t>(sizeof(PageTask));
}

}  // namespace

int64_t AttentionScratchLimit(std::span<const LayerConfig> layers, int q_heads, const AttentionLimits& limits,
                              Isa isa) {
  // The largest of each size over the layers: one workspace serves them all, and keeps what it has.
  ScratchSizes most;
  most.threads = limits.threads;
  int64_t plan_bytes = 0;
  for (const LayerConfig& layer : layers) {
    ScratchSizes sizes;
    sizes.hole_bytes = layer.shape.k_dim * static_cast<int64_t>(sizeof(float));
    AddCodecs(layer, {layer.k_codec, layer.v_codec}, isa, &sizes);
    if (!layer.protection.none()) AddCodecs(layer, layer.protection.codecs, isa, &sizes);
    const PlanBound none = BoundPlan(q_heads, layer.kv_heads, limits.threads, limits.tokens, 0);
    const PlanBound plan = BoundPlan(q_heads, layer.kv_heads, limits.threads, limits.tokens,
                                     ChunksOf(layer, limits.context, none.queries));
    most.queries = most.held_queries = std::max(most.queries, plan.queries);
    most.prepared_bytes = std::max(most.prepared_bytes, sizes.prepared_bytes);
    most.o_stride = std::max(most.o_stride, RoundUp(layer.shape.v_dim, kOutLanes));
    most.hole_bytes = std::max(most.hole_bytes, sizes.hole_bytes);
    most.partials = std::max(most.partials, plan.partials);
    most.groups = std::max(most.groups, plan.groups);
    plan_bytes = std::max(plan_bytes, plan.bytes + AddPages(layer, q_heads, limits.context, plan, &most));
  }
  return WorkspaceBytes(most) + plan_bytes + most.groups * static_cast<int64_t>(sizeof(std::atomic<int32_t>));
}

}  // namespace holdfast
