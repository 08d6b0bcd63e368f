// One lie a file: each is refused with a code and a message that names the field, the value and the limit.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "models/gguf.h"
#include "models/test_files.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::GgufWriter;
using test::Raw;
using test::RawText;

struct Malformed {
  std::string name;
  std::string bytes;
  StatusCode code;
  std::vector<std::string> said;  // every one is part of the message
};

void PrintTo(const Malformed& m, std::ostream* out) {
  *out << m.name;
}

class GgufMalformed : public ::testing::TestWithParam<Malformed> {};

TEST_P(GgufMalformed, IsRefusedByFieldValueAndLimit) {
  const Malformed& lie = GetParam();
  const auto file = GgufFile::Parse(BytesOf(lie.bytes), "model.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), lie.code) << file.status().message();
  EXPECT_TRUE(file.status().message().starts_with("read gguf \"model.gguf\": ")) << file.status().message();
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
  for (const std::string& part : lie.said) {
    EXPECT_NE(file.status().message().find(part), std::string::npos)
        << "wanted: " << part << "\nfound: " << file.status().message();
  }
}

std::string Floats(size_t n) {
  return std::string(4 * n, '\0');
}

std::vector<Malformed> PreambleLies() {
  GgufWriter magic, old, big_endian, future, tensors, keys, few_keys, few_tensors;
  magic.magic = "GGML";
  old.version = 1;
  big_endian.version = 0x03000000;
  future.version = 4;
  tensors.claimed_tensors = 65537;
  keys.claimed_keys = 65537;
  few_keys.claimed_keys = 60000;
  few_tensors.claimed_tensors = 60000;
  const auto data_loss = StatusCode::kDataLoss;
  return {
      {"Empty", "", data_loss, {"magic needs 4 bytes", "ends at 0"}},
      {"Magic", magic.Build(), data_loss, {"magic is \"GGML\"", "wanted \"GGUF\""}},
      {"VersionOne", old.Build(), StatusCode::kUnimplemented, {"version is 1", "supported are 2 and 3"}},
      {"BigEndian", big_endian.Build(), StatusCode::kUnimplemented, {"version is 50331648", "big-endian"}},
      {"VersionFour", future.Build(), StatusCode::kUnimplemented, {"version is 4", "supported are 2 and 3"}},
      {"TensorCountCap",
       tensors.Build(),
       StatusCode::kOutOfRange,
       {"tensor count is 65537", "limit is 65536"}},
      {"KeyCountCap",
       keys.Build(),
       StatusCode::kOutOfRange,
       {"metadata key count is 65537", "limit is 65536"}},
      {"KeyCountBeyondTheFile",
       few_keys.Build(),
       data_loss,
       {"metadata of 60000 keys", "needs 840000 bytes", "ends at 24"}},
      {"TensorCountBeyondTheFile", few_tensors.Build(), data_loss, {"table of 60000 tensors", "ends at 24"}},
  };
}

std::string LongKey() {
  return GgufWriter().RawKey(std::string(65536, 'k'), GgufType::kUint8, "x").Build();
}

std::string NestedArrays(int depth) {
  std::string body;
  for (int i = 0; i < depth - 1; ++i) body += Raw<uint32_t>(9) + Raw<uint64_t>(1);
  body += Raw<uint32_t>(0) + Raw<uint64_t>(1) + "x";
  return GgufWriter().Array("deep", GgufType::kArray, 1, body).Build();
}

std::vector<Malformed> MetadataLies() {
  const auto data_loss = StatusCode::kDataLoss;
  const auto out_of_range = StatusCode::kOutOfRange;
  const std::string huge = Raw<uint64_t>(~uint64_t{0});
  GgufWriter key_length;
  key_length.RawKey("k", GgufType::kUint8, std::string(16, 'x'));
  std::string long_key = key_length.Build();
  long_key.replace(24, 8, huge);
  return {
      {"KeyLength",
       long_key,
       out_of_range,
       {"length of key of metadata entry 0 is 18446744073709551615", "limit is 65535"}},
      {"KeyLengthCap",
       LongKey(),
       out_of_range,
       {"length of key of metadata entry 0 is 65536", "limit is 65535"}},
      {"EmptyKey",
       GgufWriter().RawKey("", GgufType::kUint8, "xx").Build(),
       data_loss,
       {"key of metadata entry 0 is empty"}},
      {"DuplicateKey",
       GgufWriter().Uint32("twice", 1).Uint32("twice", 2).Build(),
       data_loss,
       {"key \"twice\" of metadata entry 1 appears twice"}},
      {"ValueType",
       GgufWriter().RawKey("k", static_cast<GgufType>(13), "xxxx").Build(),
       data_loss,
       {"type of key \"k\" is 13", "largest known is 12"}},
      {"ElementType",
       GgufWriter().Array("k", static_cast<GgufType>(99), 1, "x").Build(),
       data_loss,
       {"type of key \"k\" is 99", "largest known is 12"}},
      {"BoolOfTwo",
       GgufWriter().RawKey("k", GgufType::kBool, "\x02").Build(),
       data_loss,
       {"key \"k\" has the bool 2", "limit is 1"}},
      {"BoolArrayOfTwo",
       GgufWriter().Array("k", GgufType::kBool, 2, std::string_view("\x01\x03", 2)).Build(),
       data_loss,
       {"key \"k\" has the bool 3", "limit is 1"}},
      {"StringLengthCap",
       GgufWriter().RawKey("k", GgufType::kString, Raw<uint64_t>((16 << 20) + 1)).Build(),
       out_of_range,
       {"length of key \"k\" is 16777217", "limit is 16777216"}},
      {"StringBeyondTheFile",
       GgufWriter().RawKey("k", GgufType::kString, Raw<uint64_t>(1000)).Build(),
       data_loss,
       {"key \"k\" needs 1000 bytes"}},
      {"StringInArrayCap",
       GgufWriter().Array("k", GgufType::kString, 1, huge).Build(),
       out_of_range,
       {"length of key \"k\"", "limit is 16777216"}},
      {"ArrayLengthCap",
       GgufWriter().Array("k", GgufType::kUint8, (16 << 20) + 1, "").Build(),
       out_of_range,
       {"array length of key \"k\" is 16777217", "limit is 16777216"}},
      {"ArrayBeyondTheFile",
       GgufWriter().Array("k", GgufType::kUint64, 1000, "").Build(),
       data_loss,
       {"key \"k\" needs 8000 bytes"}},
      {"ArrayNesting", NestedArrays(5), out_of_range, {"array nesting of key \"deep\"", "limit is 4"}},
      {"AlignmentZero",
       GgufWriter().Uint32("general.alignment", 0).Build(),
       data_loss,
       {"\"general.alignment\" is 0", "powers of two from 8 to 65536"}},
      {"AlignmentOdd",
       GgufWriter().Uint32("general.alignment", 48).Build(),
       data_loss,
       {"\"general.alignment\" is 48"}},
      {"AlignmentHuge",
       GgufWriter().Uint32("general.alignment", 131072).Build(),
       data_loss,
       {"\"general.alignment\" is 131072", "65536"}},
      {"AlignmentSmall",
       GgufWriter().Uint32("general.alignment", 4).Build(),
       data_loss,
       {"\"general.alignment\" is 4"}},
      {"NameWithControlBytes",
       GgufWriter().RawKey("a\n\x1b[31m\"", static_cast<GgufType>(13), "xxxx").Build(),
       data_loss,
       {"\"a\\x0a\\x1b[31m\\x22\""}},
  };
}

std::vector<Malformed> TensorLies() {
  const auto data_loss = StatusCode::kDataLoss;
  const auto out_of_range = StatusCode::kOutOfRange;
  const auto refused = StatusCode::kUnimplemented;
  const auto tensor = [](const std::vector<uint64_t>& dims, uint32_t type, size_t data_bytes,
                         int64_t offset = -1) {
    return GgufWriter().Tensor("t", dims, type, std::string(data_bytes, '\0'), offset).Build();
  };
  return {
      {"NameCap",
       GgufWriter().Tensor(std::string(257, 'n'), {8}, 0, Floats(8)).Build(),
       out_of_range,
       {"length of name of tensor 0 is 257", "limit is 256"}},
      {"EmptyName",
       GgufWriter().Tensor("", {8}, 0, Floats(8)).Build(),
       data_loss,
       {"name of tensor 0 is empty"}},
      {"DuplicateName",
       GgufWriter().Zeros("t", {8}).Zeros("t", {8}).Build(),
       data_loss,
       {"tensor \"t\" appears twice"}},
      {"NoDims", tensor({}, 0, 64), out_of_range, {"dim count of tensor \"t\" is 0", "1 and 4"}},
      {"FiveDims",
       tensor({1, 1, 1, 1, 1}, 0, 4),
       out_of_range,
       {"dim count of tensor \"t\" is 5", "1 and 4"}},
      {"ZeroDim", tensor({8, 0}, 0, 4), out_of_range, {"dim 1 of tensor \"t\" is 0", "1 and 2147483647"}},
      {"HugeDim",
       tensor({uint64_t{1} << 31}, 0, 4),
       out_of_range,
       {"dim 0 of tensor \"t\" is 2147483648", "2147483647"}},
      {"SizeOverflow",
       tensor({1u << 30, 1u << 30, 1u << 30}, 0, 4),
       data_loss,
       {"size of tensor \"t\" is more than 2^63", "the file has"}},
      {"SizeBeyondTheFile",
       tensor({1 << 20}, 0, 32),
       data_loss,
       {"size of tensor \"t\" is 4194304 bytes", "the file has"}},
      {"HalfABlock",
       tensor({48}, 8, 64),
       data_loss,
       {"dim 0 of tensor \"t\" is 48", "32 elements of a q8_0 block"}},
      {"Q2KType", tensor({256}, 10, 96), refused, {"type of tensor \"t\" is Q2_K (10)", "supported are F32"}},
      {"Iq4NlType",
       tensor({256}, 20, 96),
       refused,
       {"type of tensor \"t\" is IQ4_NL (20)", "supported are F32"}},
      {"UnknownType", tensor({256}, 4, 96), refused, {"type of tensor \"t\" is 4", "unknown"}},
      {"UnalignedOffset",
       tensor({8}, 0, 64, 8),
       data_loss,
       {"offset of tensor \"t\" is 8", "not a multiple of the alignment 32"}},
      {"OffsetBeyondTheFile",
       tensor({8}, 0, 32, 1 << 20),
       data_loss,
       {"offset of tensor \"t\" is 1048576", "the file ends at"}},
      {"GapAtTheStart",
       tensor({8}, 0, 64, 32),
       data_loss,
       {"offset of tensor \"t\" is 32", "a gap", "ends at 0"}},
      {"GapBetween",
       GgufWriter().Zeros("a", {8}).Tensor("b", {8}, 0, Floats(16), 64).Build(),
       data_loss,
       {"offset of tensor \"b\" is 64", "a gap", "ends at 32"}},
      {"Overlap",
       GgufWriter().Zeros("a", {16}).Tensor("b", {8}, 0, Floats(8), 32).Build(),
       data_loss,
       {"offset of tensor \"b\" is 32", "an overlap", "ends at 64"}},
      {"SameOffset",
       GgufWriter().Zeros("a", {8}).Tensor("b", {8}, 0, Floats(8), 0).Build(),
       data_loss,
       {"offset of tensor \"b\" is 0", "an overlap", "ends at 32"}},
      {"DataBeyondTheFile",
       GgufWriter().Tensor("t", {16}, 0, Floats(8)).Build(),
       data_loss,
       {"tensor \"t\" ends at offset", "the file ends at"}},
      {"TrailingBytes",
       [] {
         GgufWriter file;
         file.trailing = "more";
         return file.Zeros("t", {8}).Build();
       }(),
       data_loss,
       {"file size is", "the last tensor ends at"}},
  };
}

std::string NameOf(const ::testing::TestParamInfo<Malformed>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Preamble, GgufMalformed, ::testing::ValuesIn(PreambleLies()), NameOf);
INSTANTIATE_TEST_SUITE_P(Metadata, GgufMalformed, ::testing::ValuesIn(MetadataLies()), NameOf);
INSTANTIATE_TEST_SUITE_P(Tensors, GgufMalformed, ::testing::ValuesIn(TensorLies()), NameOf);

TEST(GgufLimits, AHeaderOfMoreThan512MebibytesIsRefused) {
  constexpr size_t kArrayBytes = size_t{16 << 20} * 8;
  constexpr size_t kKeys = 5;
  constexpr size_t kMapped = kKeys * (kArrayBytes + 64);  // zero pages that are never touched
  void* mapped =
      ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* bytes = static_cast<char*>(mapped);
  GgufWriter preamble;
  preamble.claimed_keys = kKeys;
  size_t at = preamble.Build().copy(bytes, 24);
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string entry =
        RawText("key" + std::to_string(i)) + Raw<uint32_t>(9) + Raw<uint32_t>(10) + Raw<uint64_t>(16 << 20);
    at += entry.copy(bytes + at, entry.size()) + kArrayBytes;
  }
  const auto file = GgufFile::Parse({reinterpret_cast<const std::byte*>(bytes), kMapped}, "large");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kOutOfRange);
  EXPECT_NE(file.status().message().find("header size up to key \"key3\""), std::string::npos)
      << file.status().message();
  EXPECT_NE(file.status().message().find("the limit is 536870912"), std::string::npos)
      << file.status().message();
  ::munmap(mapped, kMapped);
}

TEST(GgufLimits, NestingUpToTheLimitIsRead) {
  const std::string bytes = NestedArrays(3);
  EXPECT_TRUE(GgufFile::Parse(BytesOf(bytes), "nested").ok());
}

}  // namespace
}  // namespace holdfast
