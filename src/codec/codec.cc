#include "codec/codec.h"

#include <array>
#include <charconv>
#include <string>

namespace holdfast {

// Each is defined in src/codec/<name>.cc.
#define HOLDFAST_DECLARE_CODEC(id, name, symbol) extern const Codec k##symbol##Codec;
HOLDFAST_CODECS(HOLDFAST_DECLARE_CODEC)
#undef HOLDFAST_DECLARE_CODEC

namespace {

// A vector of V's dims lies within one group.
constexpr int kGroupStep = 16;

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
const Codec& GetCodec(CodecSpec spec) {
  return *kEntries[static_cast<size_t>(spec.id)].codec;
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

Status CheckGroup(CodecSpec spec, int dim) {
  if (spec.group == 0) return OkStatus();
  const std::string what =
      "codec " + std::string(CodecName(spec.id)) + ": group " + std::to_string(spec.group);
  if (GetCodec(spec).default_group == 0) return InvalidArgument(what + ", this codec takes none");
  if (spec.group < kGroupStep || spec.group % kGroupStep != 0 || dim % spec.group != 0) {
    return InvalidArgument(what + ", must be a multiple of " + std::to_string(kGroupStep) +
                           " that divides the row's " + std::to_string(dim) + " dims");
  }
  return OkStatus();
}

std::string CodecSpecName(CodecSpec spec) {
  std::string name(CodecName(spec.id));
  if (spec.group != 0) name += "g" + std::to_string(spec.group);
  return name;
}

// A name as the list has it, or `<name>g<group>`.
Result<CodecSpec> ParseCodecSpec(std::string_view text) {
  const size_t g = text.rfind('g');
  int group = 0;
  if (g != std::string_view::npos && g + 1 < text.size()) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + g + 1, end, group);
    if (error == std::errc() && at == end) {
      const Result<CodecId> id = ParseCodec(text.substr(0, g));
      if (!id.ok()) return id.status();
      const CodecSpec spec(*id, group);
      if (GetCodec(spec).default_group == 0 || group < kGroupStep || group % kGroupStep != 0 ||
          group > kMaxDim) {
        return InvalidArgument("codec: '" + std::string(text) + "': " +
                               (GetCodec(spec).default_group == 0
                                    ? "this codec takes no group"
                                    : "a group is a multiple of " + std::to_string(kGroupStep) + " up to " +
                                          std::to_string(kMaxDim)));
      }
      return spec;
    }
  }
  const Result<CodecId> id = ParseCodec(text);
  if (!id.ok()) return id.status();
  return CodecSpec(*id);
}

std::string KvSpecName(const KvSpec& spec) {
  if (spec.k == spec.v) return CodecSpecName(spec.k);
  return CodecSpecName(spec.k) + ":" + CodecSpecName(spec.v);
}

// `A:B`, `A`, or `<family><n>v<m>` for a family whose codecs are called <family><n>.
Result<KvSpec> ParseKvSpec(std::string_view text) {
  const size_t colon = text.find(':');
  const size_t v_mark = text.rfind('v');
  std::string k(text.substr(0, colon));
  std::string v = colon == std::string_view::npos ? k : std::string(text.substr(colon + 1));
  if (colon == std::string_view::npos && v_mark != std::string_view::npos && v_mark > 0 &&
      v_mark + 1 < text.size()) {
    const std::string first(text.substr(0, v_mark));
    const std::string family = first.substr(0, first.find_last_not_of("0123456789") + 1);
    k = first;
    v = family + std::string(text.substr(v_mark + 1));
  }
  const Result<CodecSpec> k_spec = ParseCodecSpec(k);
  if (!k_spec.ok()) return k_spec.status();
  const Result<CodecSpec> v_spec = ParseCodecSpec(v);
  if (!v_spec.ok()) return v_spec.status();
  return KvSpec{*k_spec, *v_spec};
}

}  // namespace holdfast
