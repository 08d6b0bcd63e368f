// Fuzzes the reader of a file of centres: what it lets through is of the model it was asked for, finite, and the very
// bytes that it would be written as.
//
// Byte 0: bit 0 mends the checksum, without which nothing past it would ever be read. The rest is the file.
#include "engine/center_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace holdfast {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

LayerConfig Layer(int kv_heads, const RowShape& shape) {
  LayerConfig layer;
  layer.kv_heads = kv_heads;
  layer.shape = shape;
  return layer;
}

// The model that every file is asked to be of: one plain layer and one of latent rows.
CenterIdentity Model() {
  CenterIdentity identity;
  identity.vocab_size = 7;
  identity.layers = {Layer(2, {3, 2, false}), Layer(1, {4, 3, true})};
  for (size_t i = 0; i < identity.fingerprint.size(); ++i) {
    identity.fingerprint[i] = static_cast<std::byte>(i + 1);
  }
  return identity;
}

void MendChecksum(std::vector<std::byte>& bytes) {
  if (bytes.size() < sizeof(Sha256)) return;
  const size_t body = bytes.size() - sizeof(Sha256);
  const Sha256 digest = Sha256Of(std::span(bytes).first(body));
  std::memcpy(bytes.data() + body, digest.data(), digest.size());
}

}  // namespace
}  // namespace holdfast

int FuzzCenter(const uint8_t* data, size_t size);
int FuzzCenter(const uint8_t* data, size_t size) {
  using namespace holdfast;
  if (size == 0) return 0;
  const auto file = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<std::byte> bytes(file.begin(), file.end());
  if ((data[0] & 1) != 0) MendChecksum(bytes);
  const CenterIdentity identity = Model();
  const auto centers = DecodeCenters(bytes, identity, "fuzz.centers");
  if (!centers.ok()) {
    Require(centers.status().message().starts_with("fuzz.centers: "));
    return 0;
  }
  Require(CheckCenters(identity, *centers).ok());
  const std::vector<std::byte> again = EncodeCenters(identity, *centers);
  Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  return 0;
}

#ifdef HOLDFAST_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return FuzzCenter(data, size);
}
#endif
