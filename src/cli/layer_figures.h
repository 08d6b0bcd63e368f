// The layers of a cache, for people and as JSON.
#pragma once

#include <vector>

#include "cli/options.h"

namespace holdfast::cli {

// One object a layer: layout, codecs, storage, shape, bytes a token, bytes planned for config.max_context.
Result<Json> LayersJson(const std::vector<LayerInfo>& layers, const CacheConfig& config);
// The sum over LayersJson's layers.
int64_t BytesPerToken(const Json& layers);
// A table on standard output.
void PrintLayers(const Json& layers);

}  // namespace holdfast::cli
