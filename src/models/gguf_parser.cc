// Reads a GGUF header out of bytes that nobody vouches for. docs/formats/gguf.md describes the layout.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/checked.h"
#include "base/status_macros.h"
#include "models/gguf.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

// GGML's numbers of tensor types. `type` where Holdfast reads it; the rest are refused by name.
struct GgmlType {
  uint32_t number;
  std::string_view name;
  std::optional<DType> type;
};
constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", DType::kF32},      {1, "F16", DType::kF16},       {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},    {6, "Q5_0", DType::kQ5_0},     {7, "Q5_1", DType::kQ5_1},
    {8, "Q8_0", DType::kQ8_0},    {9, "Q8_1", std::nullopt},     {10, "Q2_K", std::nullopt},
    {11, "Q3_K", std::nullopt},   {12, "Q4_K", DType::kQ4_K},    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},   {15, "Q8_K", std::nullopt},    {16, "IQ2_XXS", std::nullopt},
    {17, "IQ2_XS", std::nullopt}, {18, "IQ3_XXS", std::nullopt}, {19, "IQ1_S", std::nullopt},
    {20, "IQ4_NL", std::nullopt}, {21, "IQ3_S", std::nullopt},   {22, "IQ2_S", std::nullopt},
    {23, "IQ4_XS", std::nullopt}, {24, "I8", std::nullopt},      {25, "I16", std::nullopt},
    {26, "I32", std::nullopt},    {27, "I64", std::nullopt},     {28, "F64", std::nullopt},
    {29, "IQ1_M", std::nullopt},  {30, "BF16", DType::kBf16},    {34, "TQ1_0", std::nullopt},
    {35, "TQ2_0", std::nullopt},  {39, "MXFP4", std::nullopt},   {40, "NVFP4", std::nullopt},
};

constexpr std::string_view kSupportedTypes = "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K";

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, GgufFile& file) : bytes_(bytes), file_(file) {}

  Status Run() {
    HF_RETURN_IF_ERROR(ReadPreamble());
    HF_RETURN_IF_ERROR(ReadMetadata());
    HF_RETURN_IF_ERROR(ReadAlignment());
    HF_RETURN_IF_ERROR(ReadTensors());
    return PlaceTensors();
  }

 private:
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

  std::string Where(std::string_view what) const {
    return fmt::format("read gguf {}: {}", Quoted(file_.path_), what);
  }
  Status Malformed(std::string_view what) const { return DataLoss(Where(what)); }
  Status TooMuch(std::string_view field, uint64_t value, int64_t limit) const {
    return OutOfRange(Where(fmt::format("{} is {}, the limit is {}", field, value, limit)));
  }

  // `count` more bytes at the cursor are in the file and within the header's limit.
  Status Need(int64_t count, std::string_view field) const {
    if (count > size() - at_) {
      return Malformed(
          fmt::format("{} needs {} bytes at offset {}, the file ends at {}", field, count, at_, size()));
    }
    if (count > GgufLimits::kMaxHeaderBytes - at_) {
      return TooMuch(fmt::format("header size up to {}", field), static_cast<uint64_t>(at_ + count),
                     GgufLimits::kMaxHeaderBytes);
    }
    return OkStatus();
  }

  template <typename T>
  Status Read(T& out, std::string_view field) {
    HF_RETURN_IF_ERROR(Need(sizeof(T), field));
    std::memcpy(&out, bytes_.data() + at_, sizeof(T));
    at_ += static_cast<int64_t>(sizeof(T));
    return OkStatus();
  }

  Status ReadText(std::string_view& out, int64_t limit_bytes, std::string_view field) {
    uint64_t length = 0;
    HF_RETURN_IF_ERROR(Read(length, field));
    if (length > static_cast<uint64_t>(limit_bytes)) {
      return TooMuch(fmt::format("length of {}", field), length, limit_bytes);
    }
    HF_RETURN_IF_ERROR(Need(static_cast<int64_t>(length), field));
    out = {reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<size_t>(length)};
    at_ += static_cast<int64_t>(length);
    return OkStatus();
  }

  // A count whose entries take at least min_entry_bytes each: refused before anything is reserved for it.
  Status ReadCount(int64_t& out, int64_t limit, std::string_view field) {
    uint64_t count = 0;
    HF_RETURN_IF_ERROR(Read(count, field));
    if (count > static_cast<uint64_t>(limit)) return TooMuch(field, count, limit);
    out = static_cast<int64_t>(count);
    return OkStatus();
  }

  Status ReadPreamble();
  Status ReadMetadata();
  Status ReadType(GgufType& out, std::string_view field);
  Status ReadValue(GgufValue& value);
  Status SkipScalars(GgufType type, int64_t count, std::string_view field);
  Status SkipElements(GgufType type, int64_t count, int nesting, std::string_view field);
  Status ReadAlignment();
  Status ReadTensors();
  Status ReadTensor(int64_t index);
  Status ReadDims(GgufTensor& tensor, const std::string& field);
  Status ReadDType(GgufTensor& tensor, const std::string& field);
  Status SizeTensor(const GgufTensor& tensor, const std::string& field, int64_t& bytes);
  Status PlaceTensors();

  std::span<const std::byte> bytes_;
  GgufFile& file_;
  int64_t at_ = 0;
  int64_t key_count_ = 0, tensor_count_ = 0;
  std::vector<int64_t> tensor_bytes_;
};

Status GgufParser::ReadPreamble() {
  HF_RETURN_IF_ERROR(Need(4, "magic"));
  if (std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
    const std::string_view found(reinterpret_cast<const char*>(bytes_.data()), 4);
    return Malformed(fmt::format("magic is {}, wanted \"GGUF\"", Quoted(found)));
  }
  at_ = 4;
  HF_RETURN_IF_ERROR(Read(file_.version_, "version"));
  if (file_.version_ != 2 && file_.version_ != 3) {
    const uint32_t swapped = __builtin_bswap32(file_.version_);
    const char* note = swapped == 2 || swapped == 3 ? " (a big-endian file)" : "";
    return Unimplemented(Where(fmt::format("version is {}{}, supported are 2 and 3", file_.version_, note)));
  }
  HF_RETURN_IF_ERROR(ReadCount(tensor_count_, GgufLimits::kMaxTensors, "tensor count"));
  return ReadCount(key_count_, GgufLimits::kMaxKeys, "metadata key count");
}

Status GgufParser::ReadMetadata() {
  constexpr int64_t kMinEntryBytes = 8 + 1 + 4 + 1;  // key length, key, type, value
  HF_RETURN_IF_ERROR(Need(key_count_ * kMinEntryBytes, fmt::format("metadata of {} keys", key_count_)));
  file_.values_.reserve(static_cast<size_t>(key_count_));
  file_.value_index_.reserve(static_cast<size_t>(key_count_));
  for (int64_t i = 0; i < key_count_; ++i) {
    GgufValue value;
    HF_RETURN_IF_ERROR(
        ReadText(value.key, GgufLimits::kMaxKeyBytes, fmt::format("key of metadata entry {}", i)));
    if (value.key.empty())
      return Malformed(fmt::format("key of metadata entry {} is empty, at least 1 byte is needed", i));
    HF_RETURN_IF_ERROR(ReadValue(value));
    if (!file_.value_index_.emplace(value.key, file_.values_.size()).second) {
      return Malformed(
          fmt::format("key {} of metadata entry {} appears twice, once is allowed", Quoted(value.key), i));
    }
    file_.values_.push_back(value);
  }
  return OkStatus();
}

Status GgufParser::ReadType(GgufType& out, std::string_view field) {
  uint32_t number = 0;
  HF_RETURN_IF_ERROR(Read(number, field));
  constexpr auto kLast = static_cast<uint32_t>(GgufType::kFloat64);
  if (number > kLast) {
    return Malformed(fmt::format("type of {} is {}, the largest known is {}", field, number, kLast));
  }
  out = static_cast<GgufType>(number);
  return OkStatus();
}

Status GgufParser::ReadValue(GgufValue& value) {
  const std::string field = fmt::format("key {}", Quoted(value.key));
  HF_RETURN_IF_ERROR(ReadType(value.type, field));
  if (value.type == GgufType::kString) {
    std::string_view text;
    HF_RETURN_IF_ERROR(ReadText(text, GgufLimits::kMaxStringBytes, field));
    value.bytes = std::as_bytes(std::span(text));
    return OkStatus();
  }
  if (value.type == GgufType::kArray) {
    HF_RETURN_IF_ERROR(ReadType(value.element_type, field));
    HF_RETURN_IF_ERROR(
        ReadCount(value.elements, GgufLimits::kMaxArrayElements, fmt::format("array length of {}", field)));
  }
  const int64_t begin = at_;
  if (value.type == GgufType::kArray) {
    HF_RETURN_IF_ERROR(SkipElements(value.element_type, value.elements, 1, field));
  } else {
    HF_RETURN_IF_ERROR(SkipScalars(value.type, 1, field));
  }
  value.bytes = bytes_.subspan(static_cast<size_t>(begin), static_cast<size_t>(at_ - begin));
  return OkStatus();
}

Status GgufParser::SkipScalars(GgufType type, int64_t count, std::string_view field) {
  const int64_t total = count * GgufScalarBytes(type);  // both are small
  HF_RETURN_IF_ERROR(Need(total, field));
  if (type == GgufType::kBool) {
    for (int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<int>(bytes_[static_cast<size_t>(at_ + i)]);
      if (byte > 1) return Malformed(fmt::format("{} has the bool {}, the limit is 1", field, byte));
    }
  }
  at_ += total;
  return OkStatus();
}

Status GgufParser::SkipElements(GgufType type, int64_t count, int nesting, std::string_view field) {
  if (nesting > GgufLimits::kMaxArrayNesting) {
    return TooMuch(fmt::format("array nesting of {}", field), static_cast<uint64_t>(nesting),
                   GgufLimits::kMaxArrayNesting);
  }
  if (GgufScalarBytes(type) > 0) return SkipScalars(type, count, field);
  for (int64_t i = 0; i < count; ++i) {
    if (type == GgufType::kString) {
      std::string_view text;
      HF_RETURN_IF_ERROR(ReadText(text, GgufLimits::kMaxStringBytes, field));
      continue;
    }
    GgufType inner_type = GgufType::kUint8;
    int64_t inner_count = 0;
    HF_RETURN_IF_ERROR(ReadType(inner_type, field));
    HF_RETURN_IF_ERROR(ReadCount(inner_count, GgufLimits::kMaxArrayElements, field));
    HF_RETURN_IF_ERROR(SkipElements(inner_type, inner_count, nesting + 1, field));
  }
  return OkStatus();
}

Status GgufParser::ReadAlignment() {
  constexpr std::string_view kKey = "general.alignment";
  if (!file_.Has(kKey)) return OkStatus();
  HF_ASSIGN_OR_RETURN(file_.alignment_, file_.Int(kKey));
  const int64_t alignment = file_.alignment_;
  if (alignment < GgufLimits::kMinAlignment || alignment > GgufLimits::kMaxAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    return Malformed(
        fmt::format("key \"general.alignment\" is {}, the limits are powers of two from {} to {}", alignment,
                    GgufLimits::kMinAlignment, GgufLimits::kMaxAlignment));
  }
  return OkStatus();
}

Status GgufParser::ReadTensors() {
  constexpr int64_t kMinEntryBytes =
      8 + 1 + 4 + 8 + 4 + 8;  // name length, name, dim count, one dim, type, offset
  HF_RETURN_IF_ERROR(Need(tensor_count_ * kMinEntryBytes, fmt::format("table of {} tensors", tensor_count_)));
  file_.tensors_.reserve(static_cast<size_t>(tensor_count_));
  file_.tensor_index_.reserve(static_cast<size_t>(tensor_count_));
  tensor_bytes_.reserve(static_cast<size_t>(tensor_count_));
  for (int64_t i = 0; i < tensor_count_; ++i) HF_RETURN_IF_ERROR(ReadTensor(i));
  return OkStatus();
}

Status GgufParser::ReadTensor(int64_t index) {
  GgufTensor tensor;
  HF_RETURN_IF_ERROR(
      ReadText(tensor.name, GgufLimits::kMaxTensorNameBytes, fmt::format("name of tensor {}", index)));
  if (tensor.name.empty())
    return Malformed(fmt::format("name of tensor {} is empty, at least 1 byte is needed", index));
  const std::string field = fmt::format("tensor {}", Quoted(tensor.name));
  HF_RETURN_IF_ERROR(ReadDims(tensor, field));
  HF_RETURN_IF_ERROR(ReadDType(tensor, field));
  uint64_t offset = 0;
  HF_RETURN_IF_ERROR(Read(offset, field));
  if (offset > static_cast<uint64_t>(size())) {
    return Malformed(fmt::format("offset of {} is {}, the file ends at {}", field, offset, size()));
  }
  if (offset % static_cast<uint64_t>(file_.alignment_) != 0) {
    return Malformed(fmt::format("offset of {} is {}, not a multiple of the alignment {}", field, offset,
                                 file_.alignment_));
  }
  tensor.offset = static_cast<int64_t>(offset);  // from the start of the data, until PlaceTensors
  int64_t tensor_bytes = 0;
  HF_RETURN_IF_ERROR(SizeTensor(tensor, field, tensor_bytes));
  if (!file_.tensor_index_.emplace(tensor.name, file_.tensors_.size()).second) {
    return Malformed(fmt::format("{} appears twice, once is allowed", field));
  }
  file_.tensors_.push_back(tensor);
  tensor_bytes_.push_back(tensor_bytes);
  return OkStatus();
}

Status GgufParser::ReadDims(GgufTensor& tensor, const std::string& field) {
  uint32_t n_dims = 0;
  HF_RETURN_IF_ERROR(Read(n_dims, field));
  if (n_dims < 1 || n_dims > GgufLimits::kMaxDims) {
    return OutOfRange(Where(
        fmt::format("dim count of {} is {}, the limits are 1 and {}", field, n_dims, GgufLimits::kMaxDims)));
  }
  tensor.n_dims = static_cast<int>(n_dims);
  for (size_t d = 0; d < n_dims; ++d) {
    uint64_t dim = 0;
    HF_RETURN_IF_ERROR(Read(dim, field));
    if (dim < 1 || dim > static_cast<uint64_t>(GgufLimits::kMaxDim)) {
      return OutOfRange(Where(
          fmt::format("dim {} of {} is {}, the limits are 1 and {}", d, field, dim, GgufLimits::kMaxDim)));
    }
    tensor.dims[d] = static_cast<int64_t>(dim);
  }
  return OkStatus();
}

Status GgufParser::ReadDType(GgufTensor& tensor, const std::string& field) {
  uint32_t number = 0;
  HF_RETURN_IF_ERROR(Read(number, field));
  const auto* const entry = std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes),
                                         [&](const GgmlType& t) { return t.number == number; });
  if (entry == std::end(kGgmlTypes)) {
    return Unimplemented(Where(
        fmt::format("type of {} is {}, which is unknown; supported are {}", field, number, kSupportedTypes)));
  }
  if (!entry->type.has_value()) {
    return Unimplemented(Where(
        fmt::format("type of {} is {} ({}), supported are {}", field, entry->name, number, kSupportedTypes)));
  }
  tensor.type = *entry->type;
  return OkStatus();
}

Status GgufParser::SizeTensor(const GgufTensor& tensor, const std::string& field, int64_t& bytes) {
  const DTypeTraits& traits = GetDTypeTraits(tensor.type);
  if (tensor.dims[0] % traits.block_elements != 0) {
    return Malformed(fmt::format("dim 0 of {} is {}, not a multiple of the {} elements of a {} block", field,
                                 tensor.dims[0], traits.block_elements, traits.name));
  }
  std::optional<int64_t> total = RowBytesOf(tensor.type, tensor.dims[0]);  // below 2^34
  for (size_t d = 1; d < 4 && total; ++d) total = CheckedMul(*total, tensor.dims[d]);
  if (!total || *total > size()) {
    const std::string found = total ? std::to_string(*total) : "more than 2^63";
    return Malformed(fmt::format("size of {} is {} bytes, the file has {}", field, found, size()));
  }
  bytes = *total;
  return OkStatus();
}

Status GgufParser::PlaceTensors() {
  const int64_t alignment = file_.alignment_;
  file_.data_offset_ = RoundUp(at_, alignment);
  std::vector<size_t> order(file_.tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return file_.tensors_[a].offset < file_.tensors_[b].offset; });
  int64_t expected = 0;  // where the next tensor begins, from the start of the data
  int64_t end = at_;     // of the last tensor's bytes, from the start of the file
  for (const size_t i : order) {
    GgufTensor& tensor = file_.tensors_[i];
    if (tensor.offset != expected) {
      return Malformed(fmt::format("offset of tensor {} is {}, {} {}", Quoted(tensor.name), tensor.offset,
                                   tensor.offset < expected ? "an overlap: the tensor before it ends at"
                                                            : "a gap: the tensor before it ends at",
                                   expected));
    }
    const int64_t tensor_bytes = tensor_bytes_[i];  // no larger than the file, as is the offset: the sums fit
    tensor.offset += file_.data_offset_;
    if (tensor_bytes > size() - tensor.offset) {
      return Malformed(fmt::format("tensor {} ends at offset {}, the file ends at {}", Quoted(tensor.name),
                                   tensor.offset + tensor_bytes, size()));
    }
    tensor.bytes = bytes_.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor_bytes));
    end = tensor.offset + tensor_bytes;
    expected = RoundUp(expected + tensor_bytes, alignment);
  }
  if (size() > RoundUp(end, alignment)) {
    return Malformed(fmt::format("file size is {}, the last tensor ends at {} with padding to {}", size(),
                                 end, RoundUp(end, alignment)));
  }
  return OkStatus();
}

Result<std::unique_ptr<GgufFile>> GgufFile::Parse(std::span<const std::byte> bytes, std::string label) {
  std::unique_ptr<GgufFile> file(new GgufFile());
  file->path_ = std::move(label);
  HF_RETURN_IF_ERROR(GgufParser(bytes, *file).Run());
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapping, MappedFile::Open(path));
  HF_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, Parse(mapping->bytes(), path));
  file->mapping_ = std::move(mapping);
  return file;
}

}  // namespace holdfast
