// One lie a file: each is refused with a code and a message that names the field, the value and the limit.
#include <gtest/gtest.h>

#include "models/safetensors.h"
#include "models/test_files.h"
#include "models/test_refusals.h"

namespace holdfast {
namespace {

using test::BytesOf;
using test::Raw;
using test::SafetensorsBytes;

using Malformed = test::Refused<std::string>;  // a file's bytes

class SafetensorsMalformed : public ::testing::TestWithParam<Malformed> {};

TEST_P(SafetensorsMalformed, IsRefusedByFieldValueAndLimit) {
  const auto file = SafetensorsFile::Parse(BytesOf(GetParam().input), "m.safetensors");
  test::ExpectRefused(file.status(), GetParam());
  EXPECT_TRUE(file.status().message().starts_with("read safetensors \"m.safetensors\": "))
      << file.status().message();
}

constexpr auto kDataLoss = StatusCode::kDataLoss;
constexpr auto kOutOfRange = StatusCode::kOutOfRange;

std::string One(std::string_view entry, size_t data_bytes = 8) {
  return SafetensorsBytes("{\"t\":" + std::string(entry) + "}", data_bytes);
}

std::string Deep() {
  return SafetensorsBytes(R"({"__metadata__":)" + std::string(100000, '[') + std::string(100000, ']') + "}",
                          0);
}

std::string ManyTensors() {
  std::string header = "{";
  for (int i = 0; i <= 65536; ++i) header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  return SafetensorsBytes(header + "}", 0);
}

const Malformed kLies[] = {
    {"Empty", "", kDataLoss, {"header length needs 8 bytes", "file has 0"}},
    {"HeaderCap",
     Raw<uint64_t>(100'000'001),
     kOutOfRange,
     {"header length is 100000001", "limit is 100000000"}},
    {"HeaderLengthOfAllOnes", Raw(~uint64_t{0}), kOutOfRange, {"header length is 18446744073709551615"}},
    {"HeaderBeyondTheFile",
     Raw<uint64_t>(100) + "{}",
     kDataLoss,
     {"header length is 100", "has 2 bytes left"}},
    {"NoHeader", SafetensorsBytes("", 0), kDataLoss, {"does not begin with '{'"}},
    {"LeadingSpace", SafetensorsBytes(" {}", 0), kDataLoss, {"does not begin with '{'"}},
    {"NotJson", SafetensorsBytes("{\"a\":}", 0), kDataLoss, {"header: not valid JSON at byte"}},
    {"TwoValues", SafetensorsBytes("{}{}", 0), kDataLoss, {"not valid JSON"}},
    {"NotUtf8", SafetensorsBytes("{\"\xff\":1}", 0), kDataLoss, {"not valid JSON"}},
    {"Depth", Deep(), kOutOfRange, {"nesting depth is 5", "limit is 4"}},
    {"DuplicateTensor",
     SafetensorsBytes(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                      8),
     kDataLoss,
     {"key \"t\" appears twice"}},
    {"DuplicateField",
     One(R"({"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]})"),
     kDataLoss,
     {"key \"dtype\" appears twice"}},
    {"TensorCountCap", ManyTensors(), kOutOfRange, {"tensor count is 65537", "limit is 65536"}},
    {"MetadataType",
     SafetensorsBytes(R"({"__metadata__":7})", 0),
     kDataLoss,
     {"__metadata__ is of type integer"}},
    {"MetadataValue",
     SafetensorsBytes(R"({"__metadata__":{"k":7}})", 0),
     kDataLoss,
     {"__metadata__ key \"k\" is of type integer"}},
    {"NameCap",
     SafetensorsBytes("{\"" + std::string(1025, 'n') + "\":{}}", 0),
     kOutOfRange,
     {"is 1025", "1 and 1024"}},
    {"NotAnObject", One("7"), kDataLoss, {"tensor \"t\" is of type integer, wanted object"}},
    {"NoDtype", One(R"({"shape":[2],"data_offsets":[0,8]})"), kDataLoss, {"tensor \"t\" has no dtype"}},
    {"NoShape", One(R"({"dtype":"F32","data_offsets":[0,8]})"), kDataLoss, {"tensor \"t\" has no shape"}},
    {"NoOffsets", One(R"({"dtype":"F32","shape":[2]})"), kDataLoss, {"tensor \"t\" has no data_offsets"}},
    {"ExtraField",
     One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
     kDataLoss,
     {"tensor \"t\" has 4 keys"}},
    {"Int8Dtype",
     One(R"({"dtype":"I8","shape":[8],"data_offsets":[0,8]})"),
     StatusCode::kUnimplemented,
     {"dtype of tensor \"t\" is \"I8\"", "supported are F32 F16 BF16"}},
    {"DtypeType",
     One(R"({"dtype":3,"shape":[2],"data_offsets":[0,8]})"),
     kDataLoss,
     {"dtype of tensor \"t\""}},
    {"NoDims",
     One(R"({"dtype":"F32","shape":[],"data_offsets":[0,4]})", 4),
     kOutOfRange,
     {"dim count of tensor \"t\" is 0", "1 and 4"}},
    {"FiveDims",
     One(R"({"dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[0,8]})"),
     kOutOfRange,
     {"dim count of tensor \"t\" is 5", "1 and 4"}},
    {"ZeroDim",
     One(R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})", 0),
     kOutOfRange,
     {"dim 0 of tensor \"t\" is 0", "1 and 2147483647"}},
    {"HugeDim",
     One(R"({"dtype":"F32","shape":[2147483648],"data_offsets":[0,8]})"),
     kOutOfRange,
     {"dim 0 of tensor \"t\" is 2147483648", "2147483647"}},
    {"NegativeDim",
     One(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
     kDataLoss,
     {"dim 0 of tensor \"t\" is not an unsigned integer"}},
    {"FractionalDim",
     One(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
     kDataLoss,
     {"dim 0 of tensor \"t\" is not an unsigned integer"}},
    {"DimBeyond64Bits",
     One(R"({"dtype":"F32","shape":[36893488147419103232],"data_offsets":[0,8]})"),
     kDataLoss,
     {"dim 0 of tensor \"t\" is not an unsigned integer"}},
    {"SizeOverflow",
     One(R"({"dtype":"F32","shape":[2147483647,2147483647,2147483647],"data_offsets":[0,8]})"),
     kDataLoss,
     {"span 8 bytes", "more than 2^63"}},
    {"SizeMismatch",
     One(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
     kDataLoss,
     {"data_offsets of tensor \"t\" span 8 bytes", "need 12"}},
    {"OffsetsBeyondTheFile",
     One(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"),
     kDataLoss,
     {"data_offsets of tensor \"t\" end at 16", "has 8 bytes of data"}},
    {"OffsetsReversed",
     One(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
     kDataLoss,
     {"begin at 8, past their end 0"}},
    {"OffsetsNegative",
     One(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})"),
     kDataLoss,
     {"data_offsets of tensor \"t\""}},
    {"ThreeOffsets",
     One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"),
     kDataLoss,
     {"data_offsets of tensor \"t\" is not an array of 2"}},
    {"GapAtTheStart",
     One(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
     kDataLoss,
     {"begin at 4, a gap", "ends at 0"}},
    {"TrailingData",
     One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 9),
     kDataLoss,
     {"tensors end at 8", "has 9 bytes of data"}},
    {"GapBetween",
     SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                      12),
     kDataLoss,
     {"tensor \"b\" begin at 8, a gap", "ends at 4"}},
    {"Overlap",
     SafetensorsBytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                      12),
     kDataLoss,
     {"tensor \"b\" begin at 4, an overlap", "ends at 8"}},
};

INSTANTIATE_TEST_SUITE_P(Each, SafetensorsMalformed, ::testing::ValuesIn(kLies),
                         test::NameOfRow<std::string>);

}  // namespace
}  // namespace holdfast
