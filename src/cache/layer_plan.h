// What follows from a layer's configuration alone: tile sizes, slots, and from them every byte count.
// PlanLayer and SpanCache both build on this, so that what is planned is what is allocated.
#pragma once

#include <cstdint>
#include <optional>

#include "cache/layout.h"
#include "cache/storage.h"
#include "holdfast/cache_config.h"

namespace holdfast {

struct LayerPlan {
  TileGeometry tiles;
  SlotMap slots;
  int64_t max_slots = 0;  // slots that can ever be in use, a multiple of the granule
};

// REQUIRES a valid configuration. `layer` is one of its layers or what ProtectedLayer makes of one.
LayerPlan MakeLayerPlan(const CacheConfig& config, const LayerConfig& layer);

// The layer that keeps the protected rows of `layer`: a window of its own with sinks. None where it protects none.
std::optional<LayerConfig> ProtectedLayer(const LayerConfig& layer);

}  // namespace holdfast
