// Every quantised codec's error on Gaussian rows, which is what rotated rows look like, against theory.
//
// Rate-distortion theory gives a Gaussian value of variance 1 the error 2^(-2 bits) at best. What a codec spends
// above that, in bits a value with scales and padding counted, is its gap: bits - log2(1 / error) / 2.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "codec/codec.h"
#include "codec/codec_testing.h"

namespace holdfast {
namespace {

using testing_codec::AlignedBytes;

constexpr int kRows = 1024;

struct Distortion {
  double bits;   // a value
  double error;  // relative, squared
  double gap() const { return bits - 0.5 * std::log2(1.0 / error); }
};

struct HalfOf {
  int64_t (*Codec::*tile_bytes)(RowFormat);
  void (*CodecKernels::*encode)(const float*, RowFormat, int, std::byte*);
  void (*Codec::*decode)(const std::byte*, RowFormat, int, float*);
};
const HalfOf kHalves[] = {{&Codec::k_tile_bytes, &CodecKernels::encode_k, &Codec::decode_k},
                          {&Codec::v_tile_bytes, &CodecKernels::encode_v, &Codec::decode_v}};

Distortion Measure(const Codec& codec, int dim, const HalfOf& half) {
  std::mt19937 rng(99);
  const int64_t bytes = (codec.*half.tile_bytes)(dim);
  AlignedBytes tile(bytes);
  std::vector<float> decoded(static_cast<size_t>(dim));
  double off = 0;
  double whole = 0;
  for (int r = 0; r < kRows; ++r) {
    const auto row = testing_codec::NormalRow(rng, dim, 2.5f);
    (codec.kernels(ActiveIsa()).*half.encode)(row.data(), dim, r % kTileRows, tile.data());
    (codec.*half.decode)(tile.data(), dim, r % kTileRows, decoded.data());
    for (size_t d = 0; d < row.size(); ++d) {
      off += std::pow(static_cast<double>(row[d]) - static_cast<double>(decoded[d]), 2);
      whole += std::pow(static_cast<double>(row[d]), 2);
    }
  }
  return {8.0 * static_cast<double>(bytes) / (kTileRows * dim), off / whole};
}

class EveryQuantiser : public ::testing::TestWithParam<CodecId> {
 protected:
  const Codec& codec() const { return GetCodec(GetParam()); }
};

std::vector<CodecId> Quantisers() {
  std::vector<CodecId> ids;
  for (const CodecId id : AllCodecs()) {
    if (GetCodec(id).integer_dots) ids.push_back(id);
  }
  return ids;
}

INSTANTIATE_TEST_SUITE_P(All, EveryQuantiser, ::testing::ValuesIn(Quantisers()),
                         [](const auto& test) { return std::string(CodecName(test.param)); });

// A uniform quantiser over the range of a group's values: the largest of g Gaussian magnitudes is about
// sqrt(2 ln 2g).
TEST_P(EveryQuantiser, ErrsNoMoreThanAUniformQuantiserOfTheGroupsRange) {
  for (const int dim : {64, 80, 96, 112, 128, 192, 256}) {
    const int group = codec().default_group == 0 ? dim : codec().default_group;
    const double step = 2.0 * std::sqrt(2.0 * std::log(2.0 * group)) / ((1 << codec().bits) - 1);
    for (const HalfOf& half : kHalves) {
      const Distortion d = Measure(codec(), dim, half);
      RecordProperty("error_" + std::to_string(dim), std::to_string(d.error));
      EXPECT_LE(d.error, step * step / 12.0) << dim << " dims, gap " << d.gap();
    }
  }
}

// What the Lloyd-Max codebook and one 16-bit norm a row give. The codecs that are meant for rotated rows beat it.
TEST_P(EveryQuantiser, StaysWithinItsGapToTheoryIfItIsMeantForRotatedRows) {
  struct Limit {
    int dim;
    double gap[5];  // by bits
  };
  constexpr Limit kLimits[] = {
      {64, {0, 0, 0.70, 0.79, 0.85}}, {128, {0, 0, 0.60, 0.69, 0.75}}, {256, {0, 0, 0.54, 0.64, 0.70}}};
  if (!codec().always_rotated) GTEST_SKIP() << "stores more than a norm a row";
  // A search of each row's scale is worth as much again as 6 and 8 bits need for their uniform steps.
  constexpr double kManyBits = 0.95;
  for (const Limit& limit : kLimits) {
    for (const HalfOf& half : kHalves) {
      const Distortion d = Measure(codec(), limit.dim, half);
      const double gap = codec().bits <= 4 ? limit.gap[codec().bits] : kManyBits;
      EXPECT_LE(d.gap(), gap) << limit.dim << " dims, error " << d.error;
    }
  }
}

}  // namespace
}  // namespace holdfast
