// Per-layer schemes as text.
#include <charconv>
#include <string>

#include "holdfast/engine.h"

namespace holdfast {
namespace {

// The whole of `text` as a layer's number, or -1.
int LayerNumber(std::string_view text) {
  int number = -1;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end && number >= 0 && number < kMaxLayers ? number : -1;
}

Result<LayerScheme> ParseOne(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view range = text.substr(0, equals);
  const size_t dash = range.find('-');
  LayerScheme scheme;
  scheme.first = LayerNumber(range.substr(0, dash));
  scheme.last = dash == std::string_view::npos ? scheme.first : LayerNumber(range.substr(dash + 1));
  if (equals == std::string_view::npos || scheme.first < 0 || scheme.last < scheme.first) {
    return InvalidArgument("layer schemes: '" + std::string(text) +
                           "', expected LAYER=SPEC or FIRST-LAST=SPEC, layers from 0 to " +
                           std::to_string(kMaxLayers - 1));
  }
  auto codecs = ParseKvSpec(text.substr(equals + 1));
  if (!codecs.ok()) return codecs.status();
  scheme.codecs = *codecs;
  return scheme;
}

}  // namespace

std::string LayerSchemesName(const std::vector<LayerScheme>& schemes) {
  std::string name;
  for (const LayerScheme& scheme : schemes) {
    if (!name.empty()) name += ",";
    name += std::to_string(scheme.first);
    if (scheme.last != scheme.first) name += "-" + std::to_string(scheme.last);
    name += "=" + KvSpecName(scheme.codecs);
  }
  return name;
}

Result<std::vector<LayerScheme>> ParseLayerSchemes(std::string_view text) {
  std::vector<LayerScheme> schemes;
  while (true) {
    const size_t comma = text.find(',');
    auto one = ParseOne(text.substr(0, comma));
    if (!one.ok()) return one.status();
    schemes.push_back(*one);
    if (comma == std::string_view::npos) return schemes;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace holdfast
