// Fuzzes the GGUF reader: whatever Open lets through must be readable to the last byte, as metadata, as a
// configuration, as a tokenizer and as weights.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "models/gguf.h"
#include "models/gguf_config.h"
#include "models/gguf_tokenizer.h"
#include "models/weight_source.h"

namespace holdfast {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadMetadata(const GgufFile& file) {
  for (const GgufValue& value : file.metadata()) {
    Require(file.Find(value.key) == &value);
    int readable = 0;
    readable += file.Int(value.key).ok() + file.Float(value.key).ok() + file.Bool(value.key).ok();
    readable += file.String(value.key).ok() + file.Ints(value.key).ok() + file.Floats(value.key).ok();
    const auto strings = file.Strings(value.key);
    if (strings.ok()) {
      for (const std::string_view text : *strings) {
        const auto* begin = reinterpret_cast<const std::byte*>(text.data());
        Require(begin >= value.bytes.data() &&
                begin + text.size() <= value.bytes.data() + value.bytes.size());
      }
      ++readable;
    }
    Require(readable <= 1);
  }
}

void ReadTensors(std::span<const std::byte> bytes, const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    Require(file.FindTensor(tensor.name) == &tensor);
    Require(!tensor.bytes.empty() && tensor.offset % file.alignment() == 0);
    Require(tensor.bytes.data() == bytes.data() + tensor.offset);
    Require(tensor.offset + static_cast<int64_t>(tensor.bytes.size()) <= static_cast<int64_t>(bytes.size()));
  }
}

}  // namespace
}  // namespace holdfast

int FuzzGguf(const uint8_t* data, size_t size);
int FuzzGguf(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const auto bytes = std::as_bytes(std::span(data, size));
  auto opened = GgufFile::Parse(bytes, "fuzz.gguf");
  if (!opened.ok()) {
    Require(!opened.status().message().empty());
    return 0;
  }
  const std::shared_ptr<const GgufFile> file = std::move(opened).value();
  ReadMetadata(*file);
  ReadTensors(bytes, *file);
  const auto config = ReadGgufConfig(*file);
  if (config.ok()) Require(ValidateModelConfig(*config, "fuzz.gguf").ok());
  const auto spec = ReadTokenizerSpec(*file);
  if (spec.ok()) Require(spec->types.size() == spec->pieces.size());
  Require(ReadChatTemplate(*file).ok() || file->Has("tokenizer.chat_template"));
  const auto weights = MakeWeightSource(file);
  if (weights.ok()) Require((*weights)->Unused().size() == file->tensors().size());
  return 0;
}

#ifdef HOLDFAST_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return FuzzGguf(data, size);
}
#endif
