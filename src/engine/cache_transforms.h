// Which rows of a cache are rotated and centred: from options and codecs to a configuration.
#pragma once

#include "holdfast/calibrate.h"
#include "holdfast/engine.h"

namespace holdfast {

// True if some side of the layer, or of some layer, has an integer codec: what transforms and protected rows are for.
bool HasIntegerCodec(const LayerConfig& layer);
bool HasIntegerCodec(const CacheConfig& config);

// REQUIRES that the layers' codecs are set. Errors kInvalidArgument: kOn without any integer codec; kOff with a codec
// that is always rotated; each names layer, side and codec.
Status SetRotations(KvRotate rotate, CacheConfig& config);

// Centres every side with an integer codec. Error kInvalidArgument where `centers` is not of these layers.
Status SetCenters(const KvCenters& centers, CacheConfig& config);

}  // namespace holdfast
