// What every codec promises, for every codec of the list, over dims with and without padding, on every
// instruction set of this machine. A new codec is tested by its list line.
#include "codec/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codec/codec_testing.h"

namespace holdfast {
namespace {

using testing_codec::AdversarialRows;
using testing_codec::AlignedBytes;
using testing_codec::AllCases;
using testing_codec::Case;
using testing_codec::CaseName;

constexpr int kDims[] = {1, 3, 8, 20, 40, 64, 80, 96, 112, 128, 192, 256, 576, 1024};

struct HalfOf {
  const char* name;
  int64_t (*Codec::*tile_bytes)(RowFormat);
  void (*CodecKernels::*encode)(const float*, RowFormat, int, std::byte*);
  void (*Codec::*decode)(const std::byte*, RowFormat, int, float*);
};
const HalfOf kHalves[] = {{"K", &Codec::k_tile_bytes, &CodecKernels::encode_k, &Codec::decode_k},
                          {"V", &Codec::v_tile_bytes, &CodecKernels::encode_v, &Codec::decode_v}};

class EveryCodec : public ::testing::TestWithParam<Case> {
 protected:
  const Codec& codec() const { return GetParam().codec(); }
  int dim() const { return GetParam().dim; }
  RowFormat format() const { return GetParam().format(); }
  const CodecKernels& kernels() const { return GetParam().kernels(); }
};

INSTANTIATE_TEST_SUITE_P(All, EveryCodec, ::testing::ValuesIn(AllCases(kDims)), CaseName);

TEST_P(EveryCodec, DecodesWithinItsStatedError) {
  std::mt19937 rng(1);
  for (const HalfOf& half : kHalves) {
    for (const auto& row : AdversarialRows(rng, dim())) {
      ASSERT_EQ(codec().first_unencodable(row.data(), format()), -1);
      AlignedBytes tile((codec().*half.tile_bytes)(format()));
      std::vector<float> decoded(row.size(), std::nanf(""));
      (kernels().*half.encode)(row.data(), format(), 5, tile.data());
      (codec().*half.decode)(tile.data(), format(), 5, decoded.data());
      const double bound = static_cast<double>(codec().max_error(row.data(), format()));
      for (size_t d = 0; d < row.size(); ++d) {
        ASSERT_LE(std::fabs(static_cast<double>(row[d]) - static_cast<double>(decoded[d])), bound)
            << half.name << " value " << row[d] << " at " << d << " became " << decoded[d];
      }
    }
  }
}

TEST_P(EveryCodec, WritesOneSlotAndLeavesTheOthers) {
  std::mt19937 rng(2);
  for (const HalfOf& half : kHalves) {
    const int64_t bytes = (codec().*half.tile_bytes)(format());
    AlignedBytes tile(bytes + 64);
    std::memset(tile.data() + bytes, 0xa5, 64);
    std::vector<std::vector<float>> stored(kTileRows);
    const auto decode = [&](int slot) {
      std::vector<float> row(static_cast<size_t>(dim()));
      (codec().*half.decode)(tile.data(), format(), slot, row.data());
      return row;
    };
    // Slots in a scattered order, each twice: written, then overwritten.
    for (int step = 0; step < 2 * kTileRows; ++step) {
      const int slot = step * 7 % kTileRows;
      const auto row = testing_codec::NormalRow(rng, dim(), 2.0f);
      (kernels().*half.encode)(row.data(), format(), slot, tile.data());
      stored[static_cast<size_t>(slot)] = decode(slot);
      for (int other = 0; other < kTileRows; ++other) {
        if (!stored[static_cast<size_t>(other)].empty()) {
          ASSERT_EQ(decode(other), stored[static_cast<size_t>(other)]) << half.name << " slot " << other;
        }
      }
    }
    for (int64_t i = bytes; i < bytes + 64; ++i) {
      ASSERT_EQ(std::to_integer<int>(tile.data()[i]), 0xa5)
          << half.name << " wrote past its tile at byte " << i;
    }
  }
}

TEST_P(EveryCodec, WritesTheSameBytesOnEveryInstructionSet) {
  std::mt19937 rng(3);
  for (const HalfOf& half : kHalves) {
    const int64_t bytes = (codec().*half.tile_bytes)(format());
    for (const auto& row : AdversarialRows(rng, dim())) {
      AlignedBytes ours(bytes);
      AlignedBytes scalar(bytes);
      (kernels().*half.encode)(row.data(), format(), 9, ours.data());
      (codec().kernels(Isa::kScalar).*half.encode)(row.data(), format(), 9, scalar.data());
      ASSERT_EQ(std::memcmp(ours.data(), scalar.data(), static_cast<size_t>(bytes)), 0)
          << half.name << row[0];
    }
  }
}

TEST_P(EveryCodec, HasTilesOfSixteenByteMultiplesThatDecodeToFiniteRowsBeforeTheyAreWritten) {
  for (const HalfOf& half : kHalves) {
    const int64_t bytes = (codec().*half.tile_bytes)(format());
    EXPECT_GT(bytes, 0);
    EXPECT_EQ(bytes % 16, 0) << half.name;
    const AlignedBytes tile(bytes);
    std::vector<float> row(static_cast<size_t>(dim()), std::nanf(""));
    for (int slot = 0; slot < kTileRows; ++slot) {
      (codec().*half.decode)(tile.data(), format(), slot, row.data());
      for (const float x : row) EXPECT_TRUE(std::isfinite(x)) << half.name;
    }
  }
}

TEST_P(EveryCodec, NamesTheFirstValueThatItCannotCarry) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> bad = {kInfinity, -kInfinity, std::nanf("")};
  const float over = std::nextafter(codec().max_magnitude, kInfinity);
  if (std::isfinite(over)) bad.insert(bad.end(), {over, -over});
  for (const float x : bad) {
    for (int at : {0, dim() / 2, dim() - 1}) {
      std::vector<float> row(static_cast<size_t>(dim()), 0.5f);
      row[static_cast<size_t>(at)] = x;
      row.back() = x;
      EXPECT_EQ(codec().first_unencodable(row.data(), format()), at) << x;
    }
  }
  for (const float x : {codec().max_magnitude, -codec().max_magnitude}) {
    const std::vector<float> row(static_cast<size_t>(dim()), x);
    EXPECT_EQ(codec().first_unencodable(row.data(), format()), -1);
    for (const HalfOf& half : kHalves) {
      AlignedBytes tile((codec().*half.tile_bytes)(format()));
      std::vector<float> decoded(row.size());
      (kernels().*half.encode)(row.data(), format(), 0, tile.data());
      (codec().*half.decode)(tile.data(), format(), 0, decoded.data());
      const float bound = codec().max_error(row.data(), format());
      for (const float d : decoded)
        EXPECT_NEAR(d, x, bound) << half.name << ": the largest magnitude is carried";
    }
  }
}

TEST(CodecList, NamesParseBackAndEveryIdHasItsCodec) {
  ASSERT_GE(AllCodecs().size(), 4u);
  for (const CodecId id : AllCodecs()) {
    EXPECT_EQ(GetCodec(id).id, id);
    EXPECT_EQ(GetCodec(id).name, CodecName(id));
    const Result<CodecId> parsed = ParseCodec(CodecName(id));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.value(), id);
  }
}

TEST(CodecList, RefusesAnUnknownNameAndListsTheKnownOnes) {
  for (const char* name : {"", "int4", "F16", "f16 "}) {
    const Result<CodecId> parsed = ParseCodec(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find("f32, f16, bf16, int8"), std::string::npos);
  }
}

TEST(KvSpecs, AreOneNameOrAPairOrAFamilyWithTwoNumbers) {
  const auto both = [](CodecId id) { return KvSpec{id, id}; };
  for (const CodecId id : AllCodecs()) {
    const auto parsed = ParseKvSpec(CodecName(id));
    ASSERT_TRUE(parsed.ok()) << CodecName(id) << ": " << parsed.status().message();
    EXPECT_EQ(*parsed, both(id));
    EXPECT_EQ(KvSpecName(*parsed), CodecName(id));
  }
  const auto pair = ParseKvSpec("f16:int8");
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(*pair, (KvSpec{CodecId::kF16, CodecId::kInt8}));
  EXPECT_EQ(KvSpecName(*pair), "f16:int8");
  const auto family = ParseKvSpec("f32v16");
  ASSERT_TRUE(family.ok());
  EXPECT_EQ(*family, (KvSpec{CodecId::kF32, CodecId::kF16}));
}

TEST(KvSpecs, RefuseWhatIsNoCodecOrNoGroup) {
  for (const char* text :
       {"", ":", "f16:", ":f16", "f16:f16:f16", "v", "f16v", "f32v7", "int8g64", "f16g", "int8g0x"}) {
    EXPECT_FALSE(ParseKvSpec(text).ok()) << text;
  }
}

TEST(CodecSizes, AreTheDocumentedBytesARow) {
  struct Expected {
    CodecId id;
    int dim;
    int64_t k_bytes;
    int64_t v_bytes;
  };
  const Expected expected[] = {{CodecId::kF32, 64, 4096, 4096},  {CodecId::kF16, 64, 2048, 2048},
                               {CodecId::kBf16, 64, 2048, 2048}, {CodecId::kInt8, 64, 1056, 1056},
                               {CodecId::kF16, 20, 640, 1024},   {CodecId::kInt8, 20, 352, 544},
                               {CodecId::kInt8, 1, 96, 288},     {CodecId::kInt8, 576, 9248, 9248}};
  for (const Expected& e : expected) {
    EXPECT_EQ(GetCodec(e.id).k_tile_bytes(e.dim), e.k_bytes) << CodecName(e.id) << " " << e.dim;
    EXPECT_EQ(GetCodec(e.id).v_tile_bytes(e.dim), e.v_bytes) << CodecName(e.id) << " " << e.dim;
  }
}

TEST(Int8, StoresAbsmaxOver127AsItsScale) {
  const Codec& codec = GetCodec(CodecId::kInt8);
  std::vector<float> row(64, 0.0f);
  row[3] = -254.0f;
  row[7] = 127.0f;
  AlignedBytes tile(codec.k_tile_bytes(64));
  codec.kernels(ActiveIsa()).encode_k(row.data(), 64, 2, tile.data());
  uint16_t scale;
  std::memcpy(&scale, tile.data() + 1024 + 2 * 2, 2);
  EXPECT_EQ(F16ToF32(scale), 2.0f);
  EXPECT_EQ(std::to_integer<int>(tile.data()[2 * 4 + 3]), 128 - 127);
  EXPECT_EQ(std::to_integer<int>(tile.data()[64 + 2 * 4 + 3]), 128 + 64);  // 63.5 to even
}

}  // namespace
}  // namespace holdfast
