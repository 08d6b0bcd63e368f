// One lie a file: each is refused with a code and a message that names the field, the value and the limit.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "models/gguf.h"
#include "models/test_files.h"
#include "models/test_refusals.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::GgufWriter;
using test::Raw;
using test::RawText;

using Malformed = test::Refused<std::string>;  // a file's bytes

class GgufMalformed : public ::testing::TestWithParam<Malformed> {};

TEST_P(GgufMalformed, IsRefusedByFieldValueAndLimit) {
  const auto file = GgufFile::Parse(BytesOf(GetParam().input), "model.gguf");
  test::ExpectRefused(file.status(), GetParam());
  EXPECT_TRUE(file.status().message().starts_with("read gguf \"model.gguf\": ")) << file.status().message();
}

constexpr auto kDataLoss = StatusCode::kDataLoss;
constexpr auto kOutOfRange = StatusCode::kOutOfRange;
constexpr auto kUnimplemented = StatusCode::kUnimplemented;

std::string Floats(size_t n) {
  return std::string(4 * n, '\0');
}

// A preamble of no keys and no tensors that lies in one field.
template <typename Value>
std::string Preamble(Value GgufWriter::*field, Value lie) {
  GgufWriter file;
  file.*field = lie;
  return file.Build();
}

const Malformed kPreambleLies[] = {
    {"Empty", "", kDataLoss, {"magic needs 4 bytes", "ends at 0"}},
    {"Magic",
     Preamble(&GgufWriter::magic, std::string("GGML")),
     kDataLoss,
     {"magic is \"GGML\"", "wanted \"GGUF\""}},
    {"VersionOne",
     Preamble(&GgufWriter::version, 1u),
     kUnimplemented,
     {"version is 1", "supported are 2 and 3"}},
    {"BigEndian",
     Preamble(&GgufWriter::version, 0x03000000u),
     kUnimplemented,
     {"version is 50331648", "big-endian"}},
    {"VersionFour",
     Preamble(&GgufWriter::version, 4u),
     kUnimplemented,
     {"version is 4", "supported are 2 and 3"}},
    {"TensorCountCap",
     Preamble(&GgufWriter::claimed_tensors, int64_t{65537}),
     kOutOfRange,
     {"tensor count is 65537", "limit is 65536"}},
    {"KeyCountCap",
     Preamble(&GgufWriter::claimed_keys, int64_t{65537}),
     kOutOfRange,
     {"metadata key count is 65537", "limit is 65536"}},
    {"KeyCountBeyondTheFile",
     Preamble(&GgufWriter::claimed_keys, int64_t{60000}),
     kDataLoss,
     {"metadata of 60000 keys", "needs 840000 bytes", "ends at 24"}},
    {"TensorCountBeyondTheFile",
     Preamble(&GgufWriter::claimed_tensors, int64_t{60000}),
     kDataLoss,
     {"table of 60000 tensors", "ends at 24"}},
};

std::string LongKey() {
  return GgufWriter().RawKey(std::string(65536, 'k'), GgufType::kUint8, "x").Build();
}

std::string NestedArrays(int depth) {
  std::string body;
  for (int i = 0; i < depth - 1; ++i) body += Raw<uint32_t>(9) + Raw<uint64_t>(1);
  body += Raw<uint32_t>(0) + Raw<uint64_t>(1) + "x";
  return GgufWriter().Array("deep", GgufType::kArray, 1, body).Build();
}

const std::string kAllOnes = Raw<uint64_t>(~uint64_t{0});

// The length of the first key is where the preamble ends.
std::string KeyLengthOfAllOnes() {
  return GgufWriter().RawKey("k", GgufType::kUint8, std::string(16, 'x')).Build().replace(24, 8, kAllOnes);
}

const Malformed kMetadataLies[] = {
    {"KeyLength",
     KeyLengthOfAllOnes(),
     kOutOfRange,
     {"length of key of metadata entry 0 is 18446744073709551615", "limit is 65535"}},
    {"KeyLengthCap",
     LongKey(),
     kOutOfRange,
     {"length of key of metadata entry 0 is 65536", "limit is 65535"}},
    {"EmptyKey",
     GgufWriter().RawKey("", GgufType::kUint8, "xx").Build(),
     kDataLoss,
     {"key of metadata entry 0 is empty"}},
    {"DuplicateKey",
     GgufWriter().Uint32("twice", 1).Uint32("twice", 2).Build(),
     kDataLoss,
     {"key \"twice\" of metadata entry 1 appears twice"}},
    {"ValueType",
     GgufWriter().RawKey("k", static_cast<GgufType>(13), "xxxx").Build(),
     kDataLoss,
     {"type of key \"k\" is 13", "largest known is 12"}},
    {"ElementType",
     GgufWriter().Array("k", static_cast<GgufType>(99), 1, "x").Build(),
     kDataLoss,
     {"type of key \"k\" is 99", "largest known is 12"}},
    {"BoolOfTwo",
     GgufWriter().RawKey("k", GgufType::kBool, "\x02").Build(),
     kDataLoss,
     {"key \"k\" has the bool 2", "limit is 1"}},
    {"BoolArrayOfTwo",
     GgufWriter().Array("k", GgufType::kBool, 2, std::string_view("\x01\x03", 2)).Build(),
     kDataLoss,
     {"key \"k\" has the bool 3", "limit is 1"}},
    {"StringLengthCap",
     GgufWriter().RawKey("k", GgufType::kString, Raw<uint64_t>((16 << 20) + 1)).Build(),
     kOutOfRange,
     {"length of key \"k\" is 16777217", "limit is 16777216"}},
    {"StringBeyondTheFile",
     GgufWriter().RawKey("k", GgufType::kString, Raw<uint64_t>(1000)).Build(),
     kDataLoss,
     {"key \"k\" needs 1000 bytes"}},
    {"StringInArrayCap",
     GgufWriter().Array("k", GgufType::kString, 1, kAllOnes).Build(),
     kOutOfRange,
     {"length of key \"k\"", "limit is 16777216"}},
    {"ArrayLengthCap",
     GgufWriter().Array("k", GgufType::kUint8, (16 << 20) + 1, "").Build(),
     kOutOfRange,
     {"array length of key \"k\" is 16777217", "limit is 16777216"}},
    {"ArrayBeyondTheFile",
     GgufWriter().Array("k", GgufType::kUint64, 1000, "").Build(),
     kDataLoss,
     {"key \"k\" needs 8000 bytes"}},
    {"ArrayNesting", NestedArrays(5), kOutOfRange, {"array nesting of key \"deep\"", "limit is 4"}},
    {"AlignmentZero",
     GgufWriter().Uint32("general.alignment", 0).Build(),
     kDataLoss,
     {"\"general.alignment\" is 0", "powers of two from 8 to 65536"}},
    {"AlignmentOdd",
     GgufWriter().Uint32("general.alignment", 48).Build(),
     kDataLoss,
     {"\"general.alignment\" is 48"}},
    {"AlignmentHuge",
     GgufWriter().Uint32("general.alignment", 131072).Build(),
     kDataLoss,
     {"\"general.alignment\" is 131072", "65536"}},
    {"AlignmentSmall",
     GgufWriter().Uint32("general.alignment", 4).Build(),
     kDataLoss,
     {"\"general.alignment\" is 4"}},
    {"NameWithControlBytes",
     GgufWriter().RawKey("a\n\x1b[31m\"", static_cast<GgufType>(13), "xxxx").Build(),
     kDataLoss,
     {"\"a\\x0a\\x1b[31m\\x22\""}},
};

// A file of one tensor.
std::string Tensor(const std::vector<uint64_t>& dims, uint32_t type, size_t data_bytes, int64_t offset = -1) {
  return GgufWriter().Tensor("t", dims, type, std::string(data_bytes, '\0'), offset).Build();
}

std::string TrailingBytes() {
  GgufWriter file;
  file.trailing = "more";
  return file.Zeros("t", {8}).Build();
}

const Malformed kTensorLies[] = {
    {"NameCap",
     GgufWriter().Tensor(std::string(257, 'n'), {8}, 0, Floats(8)).Build(),
     kOutOfRange,
     {"length of name of tensor 0 is 257", "limit is 256"}},
    {"EmptyName",
     GgufWriter().Tensor("", {8}, 0, Floats(8)).Build(),
     kDataLoss,
     {"name of tensor 0 is empty"}},
    {"DuplicateName",
     GgufWriter().Zeros("t", {8}).Zeros("t", {8}).Build(),
     kDataLoss,
     {"tensor \"t\" appears twice"}},
    {"NoDims", Tensor({}, 0, 64), kOutOfRange, {"dim count of tensor \"t\" is 0", "1 and 4"}},
    {"FiveDims", Tensor({1, 1, 1, 1, 1}, 0, 4), kOutOfRange, {"dim count of tensor \"t\" is 5", "1 and 4"}},
    {"ZeroDim", Tensor({8, 0}, 0, 4), kOutOfRange, {"dim 1 of tensor \"t\" is 0", "1 and 2147483647"}},
    {"HugeDim",
     Tensor({uint64_t{1} << 31}, 0, 4),
     kOutOfRange,
     {"dim 0 of tensor \"t\" is 2147483648", "2147483647"}},
    {"SizeOverflow",
     Tensor({1u << 30, 1u << 30, 1u << 30}, 0, 4),
     kDataLoss,
     {"size of tensor \"t\" is more than 2^63", "the file has"}},
    {"SizeBeyondTheFile",
     Tensor({1 << 20}, 0, 32),
     kDataLoss,
     {"size of tensor \"t\" is 4194304 bytes", "the file has"}},
    {"HalfABlock",
     Tensor({48}, 8, 64),
     kDataLoss,
     {"dim 0 of tensor \"t\" is 48", "32 elements of a q8_0 block"}},
    {"Q2KType",
     Tensor({256}, 10, 96),
     kUnimplemented,
     {"type of tensor \"t\" is Q2_K (10)", "supported are F32"}},
    {"Iq4NlType",
     Tensor({256}, 20, 96),
     kUnimplemented,
     {"type of tensor \"t\" is IQ4_NL (20)", "supported are F32"}},
    {"UnknownType", Tensor({256}, 4, 96), kUnimplemented, {"type of tensor \"t\" is 4", "unknown"}},
    {"UnalignedOffset",
     Tensor({8}, 0, 64, 8),
     kDataLoss,
     {"offset of tensor \"t\" is 8", "not a multiple of the alignment 32"}},
    {"OffsetBeyondTheFile",
     Tensor({8}, 0, 32, 1 << 20),
     kDataLoss,
     {"offset of tensor \"t\" is 1048576", "the file ends at"}},
    {"GapAtTheStart",
     Tensor({8}, 0, 64, 32),
     kDataLoss,
     {"offset of tensor \"t\" is 32", "a gap", "ends at 0"}},
    {"GapBetween",
     GgufWriter().Zeros("a", {8}).Tensor("b", {8}, 0, Floats(16), 64).Build(),
     kDataLoss,
     {"offset of tensor \"b\" is 64", "a gap", "ends at 32"}},
    {"Overlap",
     GgufWriter().Zeros("a", {16}).Tensor("b", {8}, 0, Floats(8), 32).Build(),
     kDataLoss,
     {"offset of tensor \"b\" is 32", "an overlap", "ends at 64"}},
    {"SameOffset",
     GgufWriter().Zeros("a", {8}).Tensor("b", {8}, 0, Floats(8), 0).Build(),
     kDataLoss,
     {"offset of tensor \"b\" is 0", "an overlap", "ends at 32"}},
    {"DataBeyondTheFile",
     GgufWriter().Tensor("t", {16}, 0, Floats(8)).Build(),
     kDataLoss,
     {"tensor \"t\" ends at offset", "the file ends at"}},
    {"TrailingBytes", TrailingBytes(), kDataLoss, {"file size is", "the last tensor ends at"}},
};

INSTANTIATE_TEST_SUITE_P(Preamble, GgufMalformed, ::testing::ValuesIn(kPreambleLies),
                         test::NameOfRow<std::string>);
INSTANTIATE_TEST_SUITE_P(Metadata, GgufMalformed, ::testing::ValuesIn(kMetadataLies),
                         test::NameOfRow<std::string>);
INSTANTIATE_TEST_SUITE_P(Tensors, GgufMalformed, ::testing::ValuesIn(kTensorLies),
                         test::NameOfRow<std::string>);

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
