// The bytes of a file of centres (docs/formats/centers.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model_fingerprint.h"
#include "holdfast/calibrate.h"

namespace holdfast {

// What a file must have been made for.
struct CenterIdentity {
  int64_t vocab_size = 0;
  std::vector<LayerConfig> layers;  // shapes and heads
  Sha256 fingerprint = {};
};

// REQUIRES centers of these layers: see CheckCenters.
std::vector<std::byte> EncodeCenters(const CenterIdentity& identity, const KvCenters& centers);

// Errors kInvalidArgument, naming the layer, where centers are not of these layers or not finite.
Status CheckCenters(const CenterIdentity& identity, const KvCenters& centers);

// Sizes follow from the identity and are compared, never taken from the bytes. Errors: kDataLoss (what is not such a file,
// or is damaged), kUnimplemented (a later version), kInvalidArgument (of another model), each beginning with `path`.
Result<KvCenters> DecodeCenters(std::span<const std::byte> bytes, const CenterIdentity& identity,
                                const std::string& path);

}  // namespace holdfast
