#include "engine/center_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/status_macros.h"

namespace holdfast {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr char kMagic[8] = {'H', 'F', 'C', 'E', 'N', 'T', 'E', 'R'};
constexpr uint32_t kVersion = 1;
constexpr size_t kDigestBytes = sizeof(Sha256);

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t layers;
  int64_t vocab_size;
  int64_t tokens;
  uint32_t flags;
  uint32_t zero;
  std::byte fingerprint[kDigestBytes];
};
static_assert(sizeof(Header) == 72, "no padding");
constexpr uint32_t kHasValues = 1;  // of flags

struct LayerEntry {
  uint32_t kv_heads;
  uint32_t k_dim;
  uint32_t v_dim;
  uint32_t latent;

  friend bool operator==(const LayerEntry&, const LayerEntry&) = default;
};
static_assert(sizeof(LayerEntry) == 16, "no padding");

LayerEntry EntryOf(const LayerConfig& layer) {
  return {static_cast<uint32_t>(layer.kv_heads), static_cast<uint32_t>(layer.shape.k_dim),
          static_cast<uint32_t>(layer.shape.v_dim), layer.shape.v_is_prefix_of_k ? 1u : 0u};
}

size_t KeyValues(const LayerConfig& layer) {
  return static_cast<size_t>(layer.kv_heads) * static_cast<size_t>(layer.shape.k_dim);
}
size_t ValueValues(const LayerConfig& layer, bool has_values) {
  if (!has_values || layer.shape.v_is_prefix_of_k) return 0;
  return static_cast<size_t>(layer.kv_heads) * static_cast<size_t>(layer.shape.v_dim);
}

size_t FileBytes(const CenterIdentity& identity, bool has_values) {
  size_t bytes = sizeof(Header) + kDigestBytes;
  for (const LayerConfig& layer : identity.layers) {
    bytes += sizeof(LayerEntry) + (KeyValues(layer) + ValueValues(layer, has_values)) * sizeof(float);
  }
  return bytes;
}

template <typename T>
T ReadAt(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string Describe(const LayerEntry& e) {
  return std::to_string(e.kv_heads) + " heads of " + std::to_string(e.k_dim) + "/" + std::to_string(e.v_dim) +
         (e.latent != 0 ? " latent" : "");
}

// What the header and the table say, against what they must.
Status CheckIdentity(std::span<const std::byte> bytes, const CenterIdentity& identity,
                     const std::string& where) {
  const auto header = ReadAt<Header>(bytes, 0);
  if (std::memcmp(header.fingerprint, identity.fingerprint.data(), kDigestBytes) != 0) {
    return InvalidArgument(where + "made for another model (its fingerprint differs): calibrate this one");
  }
  if (header.vocab_size != identity.vocab_size) {
    return InvalidArgument(where + "vocab_size is " + std::to_string(header.vocab_size) +
                           ", the model's is " + std::to_string(identity.vocab_size));
  }
  if (header.tokens < 1)
    return DataLoss(where + "tokens is " + std::to_string(header.tokens) + ", must be >= 1");
  for (size_t i = 0; i < identity.layers.size(); ++i) {
    const auto entry = ReadAt<LayerEntry>(bytes, sizeof(Header) + i * sizeof(LayerEntry));
    const LayerEntry expected = EntryOf(identity.layers[i]);
    if (entry == expected) continue;
    return InvalidArgument(where + "layer " + std::to_string(i) + " has " + Describe(entry) +
                           ", the model's has " + Describe(expected));
  }
  return OkStatus();
}

Status CheckBytes(std::span<const std::byte> bytes, const CenterIdentity& identity,
                  const std::string& where) {
  if (bytes.size() < sizeof(Header) + kDigestBytes) {
    return DataLoss(where + std::to_string(bytes.size()) + " bytes, the header and checksum take " +
                    std::to_string(sizeof(Header) + kDigestBytes));
  }
  const auto header = ReadAt<Header>(bytes, 0);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return DataLoss(where + "not a file of centres");
  if (header.version != kVersion) {
    return Unimplemented(where + "version " + std::to_string(header.version) + ", this program reads " +
                         std::to_string(kVersion));
  }
  const auto body = bytes.first(bytes.size() - kDigestBytes);
  const Sha256 digest = Sha256Of(body);
  if (std::memcmp(digest.data(), bytes.data() + body.size(), kDigestBytes) != 0) {
    return DataLoss(where + "its checksum does not match: damaged or cut short");
  }
  if (header.layers != identity.layers.size()) {
    return InvalidArgument(where + std::to_string(header.layers) + " layers, the model has " +
                           std::to_string(identity.layers.size()));
  }
  if ((header.flags & ~kHasValues) != 0 || header.zero != 0) {
    return Unimplemented(where + "flags " + std::to_string(header.flags) + " and " +
                         std::to_string(header.zero) + ", this program knows flags 0 and 1");
  }
  const size_t expected = FileBytes(identity, header.flags == kHasValues);
  if (bytes.size() != expected) {
    return InvalidArgument(where + std::to_string(bytes.size()) + " bytes, for this model it has " +
                           std::to_string(expected));
  }
  return CheckIdentity(bytes, identity, where);
}

Status CheckVector(const std::shared_ptr<const std::vector<float>>& center, size_t expected, const char* side,
                   size_t layer) {
  const std::string where = std::string("centres: ") + side + " of layer " + std::to_string(layer);
  const size_t values = center == nullptr ? 0 : center->size();
  if (values != expected) {
    return InvalidArgument(where + " has " + std::to_string(values) + " values, must be " +
                           std::to_string(expected));
  }
  for (size_t i = 0; i < values; ++i) {
    if (std::isfinite((*center)[i])) continue;
    return InvalidArgument(where + ": value " + std::to_string(i) + " is " + std::to_string((*center)[i]) +
                           ", must be finite");
  }
  return OkStatus();
}

// Of every layer that has values of its own, or of none.
bool HasValues(const KvCenters& centers) {
  return std::any_of(centers.layers.begin(), centers.layers.end(),
                     [](const KvCenters::Layer& layer) { return layer.v != nullptr; });
}

// Not by insert(): of gcc 12's false alarms, it sees an overflow there.
void Append(std::vector<std::byte>& to, const void* from, size_t bytes) {
  const size_t at = to.size();
  to.resize(at + bytes);
  std::memcpy(to.data() + at, from, bytes);
}

}  // namespace

Status CheckCenters(const CenterIdentity& identity, const KvCenters& centers) {
  if (centers.layers.size() != identity.layers.size()) {
    return InvalidArgument("centres: " + std::to_string(centers.layers.size()) + " layers, the model has " +
                           std::to_string(identity.layers.size()));
  }
  if (centers.tokens < 1)
    return InvalidArgument("centres: of " + std::to_string(centers.tokens) + " tokens, must be >= 1");
  for (size_t i = 0; i < centers.layers.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckVector(centers.layers[i].k, KeyValues(identity.layers[i]), "K", i));
    HF_RETURN_IF_ERROR(
        CheckVector(centers.layers[i].v, ValueValues(identity.layers[i], HasValues(centers)), "V", i));
  }
  return OkStatus();
}

std::vector<std::byte> EncodeCenters(const CenterIdentity& identity, const KvCenters& centers) {
  std::vector<std::byte> bytes;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.layers = static_cast<uint32_t>(identity.layers.size());
  header.vocab_size = identity.vocab_size;
  header.tokens = centers.tokens;
  header.flags = HasValues(centers) ? kHasValues : 0;
  std::memcpy(header.fingerprint, identity.fingerprint.data(), kDigestBytes);
  Append(bytes, &header, sizeof header);
  for (const LayerConfig& layer : identity.layers) {
    const LayerEntry entry = EntryOf(layer);
    Append(bytes, &entry, sizeof entry);
  }
  for (const KvCenters::Layer& layer : centers.layers) {
    for (const auto& side : {layer.k, layer.v}) {
      if (side != nullptr) Append(bytes, side->data(), side->size() * sizeof(float));
    }
  }
  const Sha256 digest = Sha256Of(bytes);
  Append(bytes, digest.data(), digest.size());
  return bytes;
}

Result<KvCenters> DecodeCenters(std::span<const std::byte> bytes, const CenterIdentity& identity,
                                const std::string& path) {
  HF_RETURN_IF_ERROR(CheckBytes(bytes, identity, path + ": "));
  KvCenters centers;
  const auto header = ReadAt<Header>(bytes, 0);
  centers.tokens = header.tokens;
  size_t at = sizeof(Header) + identity.layers.size() * sizeof(LayerEntry);
  const auto take = [&](size_t values) -> std::shared_ptr<const std::vector<float>> {
    if (values == 0) return nullptr;
    std::vector<float> center(values);
    std::memcpy(center.data(), bytes.data() + at, values * sizeof(float));
    at += values * sizeof(float);
    return std::make_shared<const std::vector<float>>(std::move(center));
  };
  for (const LayerConfig& layer : identity.layers) {
    KvCenters::Layer& read = centers.layers.emplace_back();
    read.k = take(KeyValues(layer));
    read.v = take(ValueValues(layer, header.flags == kHasValues));
  }
  const Status checked = CheckCenters(identity, centers);
  if (!checked.ok()) return DataLoss(path + ": " + checked.message());
  return centers;
}

}  // namespace holdfast
