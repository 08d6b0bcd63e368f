#include "codec/codec.h"

#include <array>
#include <string>

namespace holdfast {

// Each is defined in src/codec/<name>.cc.
#define HOLDFAST_DECLARE_CODEC(id, name, symbol) extern const Codec k##symbol##Codec;
HOLDFAST_CODECS(HOLDFAST_DECLARE_CODEC)
#undef HOLDFAST_DECLARE_CODEC

namespace {

struct Entry {
  CodecId id;
  std::string_view name;
  const Codec* codec;
};

constexpr std::array kEntries = {
#define HOLDFAST_CODEC_ENTRY(id, name, symbol) Entry{CodecId::id, name, &k##symbol##Codec},
    HOLDFAST_CODECS(HOLDFAST_CODEC_ENTRY)
#undef HOLDFAST_CODEC_ENTRY
};

}  // namespace

// The list defines both the enumerators and the entries, so an id is its entry's index.
const Codec& GetCodec(CodecId id) {
  return *kEntries[static_cast<size_t>(id)].codec;
}

std::string_view CodecName(CodecId id) {
  return kEntries[static_cast<size_t>(id)].name;
}

Result<CodecId> ParseCodec(std::string_view name) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.id;
    known += known.empty() ? "" : ", ";
    known += entry.name;
  }
  return InvalidArgument("codec: '" + std::string(name) + "' is unknown, expected one of " + known);
}

std::vector<CodecId> AllCodecs() {
  std::vector<CodecId> ids;
  for (const Entry& entry : kEntries) ids.push_back(entry.id);
  return ids;
}

}  // namespace holdfast
