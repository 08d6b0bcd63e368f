#include "engine/cache_transforms.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "codec/codec.h"

namespace holdfast {
namespace {

bool IsInteger(CodecSpec codec) {
  return GetCodec(codec).integer_dots;
}

// A latent row's V is its K's prefix: it has no side of its own.
bool HasValueSide(const LayerConfig& layer) {
  return !layer.shape.v_is_prefix_of_k;
}

Status SetRotation(KvRotate rotate, size_t layer, const char* side, CodecSpec spec,
                   RowTransformConfig& transform) {
  const Codec& codec = GetCodec(spec);
  if (rotate == KvRotate::kOff && codec.always_rotated) {
    return InvalidArgument("cache: rotate is off, codec " + CodecSpecName(spec) + " of layer " +
                           std::to_string(layer) + "'s " + side +
                           " is for rotated rows only: use on or auto");
  }
  const bool wanted = rotate == KvRotate::kOn || (rotate == KvRotate::kAuto && codec.bits < 8);
  transform.rotate = codec.always_rotated || (wanted && codec.integer_dots);
  return OkStatus();
}

}  // namespace

std::string_view KvRotateName(KvRotate rotate) {
  constexpr std::string_view kNames[] = {"auto", "on", "off"};
  return kNames[static_cast<size_t>(rotate)];
}

Result<KvRotate> ParseKvRotate(std::string_view name) {
  for (const KvRotate rotate : {KvRotate::kAuto, KvRotate::kOn, KvRotate::kOff}) {
    if (KvRotateName(rotate) == name) return rotate;
  }
  return InvalidArgument("rotate: '" + std::string(name) + "' is unknown, expected one of auto, on, off");
}

bool HasIntegerCodec(const CacheOptions& options) {
  return IsInteger(options.k_codec) || IsInteger(options.v_codec) ||
         std::any_of(options.layers.begin(), options.layers.end(), [](const LayerScheme& layer) {
           return IsInteger(layer.codecs.k) || IsInteger(layer.codecs.v);
         });
}

CacheOptions WithoutIdleTransforms(CacheOptions options) {
  if (HasIntegerCodec(options)) return options;
  if (options.rotate == KvRotate::kOn) options.rotate = KvRotate::kAuto;
  options.center_file.clear();
  return options;
}

bool HasIntegerCodec(const LayerConfig& layer) {
  return IsInteger(layer.k_codec) || (HasValueSide(layer) && IsInteger(layer.v_codec));
}

bool HasIntegerCodec(const CacheConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const LayerConfig& layer) { return HasIntegerCodec(layer); });
}

Status SetRotations(KvRotate rotate, CacheConfig& config) {
  if (rotate == KvRotate::kOn && !HasIntegerCodec(config)) {
    return InvalidArgument("cache: rotate is on, but no layer has an integer codec: layer 0 is " +
                           KvSpecName({config.layers[0].k_codec, config.layers[0].v_codec}));
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    HF_RETURN_IF_ERROR(SetRotation(rotate, i, "K", layer.k_codec, layer.k_transform));
    if (!HasValueSide(layer)) continue;
    HF_RETURN_IF_ERROR(SetRotation(rotate, i, "V", layer.v_codec, layer.v_transform));
  }
  return OkStatus();
}

Status SetCenters(const KvCenters& centers, CacheConfig& config) {
  if (centers.layers.size() != config.layers.size()) {
    return InvalidArgument("cache: centres of " + std::to_string(centers.layers.size()) +
                           " layers, the model has " + std::to_string(config.layers.size()));
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    if (IsInteger(layer.k_codec)) layer.k_transform.center = centers.layers[i].k;
    if (HasValueSide(layer) && IsInteger(layer.v_codec)) layer.v_transform.center = centers.layers[i].v;
  }
  return OkStatus();
}

}  // namespace holdfast
