// The searched scales of affine4 and q4_0 beside the plain formulas that they start from, restated here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codec/codec.h"
#include "codec/codec_testing.h"

namespace holdfast {
namespace {

using testing_codec::AlignedBytes;
using testing_codec::NormalRow;

constexpr int kGroup = 32;
using Row = std::vector<float>;

float Rounded(float x) {
  return F16ToF32(F32ToF16(x));
}

// scale = (max - min) / 15, bias = min.
void PlainAffine4(const float* x, float* decoded) {
  const auto [least, most] = std::minmax_element(x, x + kGroup);
  const float bias = Rounded(*least);
  const float scale = Rounded((*most - bias) / 15.0f);
  for (int i = 0; i < kGroup; ++i) {
    const float level = scale > 0.0f ? std::nearbyint((x[i] - bias) / scale) : 0.0f;
    decoded[i] = std::clamp(level, 0.0f, 15.0f) * scale + bias;
  }
}

// quantize_row_q4_0_ref.
void PlainQ4_0(const float* x, float* decoded) {
  const float largest =
      *std::max_element(x, x + kGroup, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float d = largest / -8.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  for (int i = 0; i < kGroup; ++i) {
    decoded[i] = (std::min(15.0f, std::trunc(x[i] * inverse + 8.5f)) - 8.0f) * Rounded(d);
  }
}

struct Searched {
  CodecId id;
  void (*plain)(const float*, float*);
  double most_of_plain;  // of the squared error of Gaussian rows
};
const Searched kSearched[] = {{CodecId::kAffine4, PlainAffine4, 0.83}, {CodecId::kQ4_0, PlainQ4_0, 0.93}};

Row StoredKey(const Codec& codec, Isa isa, const Row& row) {
  const auto dim = static_cast<int>(row.size());
  AlignedBytes tile(codec.k_tile_bytes(dim));
  Row decoded(row.size());
  codec.kernels(isa).encode_k(row.data(), dim, 7, tile.data());
  codec.decode_k(tile.data(), dim, 7, decoded.data());
  return decoded;
}

double SquaredError(const float* a, const float* b) {
  double sum = 0.0;
  for (int i = 0; i < kGroup; ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

TEST(RangeSearch, NeverErrsMoreThanThePlainFormulaAndMuchLessOnGaussianRows) {
  constexpr int kDim = 128;
  for (const Searched& searched : kSearched) {
    const Codec& codec = GetCodec(searched.id);
    std::mt19937 rng(17);
    double ours = 0.0;
    double plain = 0.0;
    for (int r = 0; r < 400; ++r) {
      Row row = NormalRow(rng, kDim, std::ldexp(1.0f, r % 12 - 6));
      if (r % 8 == 7)
        row[static_cast<size_t>(r % kDim)] *= 20.0f;  // an outlier, which a narrow range would clip
      const Row stored = StoredKey(codec, ActiveIsa(), row);
      for (int begin = 0; begin < kDim; begin += kGroup) {
        float decoded[kGroup];
        searched.plain(row.data() + begin, decoded);
        const double plain_error = SquaredError(row.data() + begin, decoded);
        const double error = SquaredError(row.data() + begin, stored.data() + begin);
        // Within what rounding scales to f16 is worth.
        ASSERT_LE(error, 1.02 * plain_error) << codec.name << " row " << r << " group at " << begin;
        if (r % 8 == 7) continue;
        const double power = std::pow(4.0, r % 12 - 6);
        ours += error / power;
        plain += plain_error / power;
      }
    }
    EXPECT_LE(ours, searched.most_of_plain * plain) << codec.name << ": " << ours / plain;
  }
}

// A context shift by nothing must not wear rows down.
TEST(RangeSearch, LeavesAGroupThatLiesOnTheLevelsOfAWholeRange) {
  constexpr int kDim = 64;
  std::mt19937 rng(23);
  std::uniform_int_distribution<int> code(0, 15);
  for (const Searched& searched : kSearched) {
    const Codec& codec = GetCodec(searched.id);
    for (int r = 0; r < 200; ++r) {
      const float scale = Rounded(std::ldexp(1.0f + 0.01f * static_cast<float>(r), r % 9 - 6));
      const float bias = searched.id == CodecId::kQ4_0 ? -8.0f * scale : Rounded(-4.3f * scale);
      Row row(kDim);
      for (size_t d = 0; d < row.size(); ++d) {
        const int level = d % kGroup == 0 ? 0 : d % kGroup == 1 ? 15 : code(rng);
        row[d] = bias + static_cast<float>(level) * scale;
      }
      const Row stored = StoredKey(codec, ActiveIsa(), row);
      for (size_t d = 0; d < row.size(); ++d) ASSERT_NEAR(stored[d], row[d], 0.02f * scale) << codec.name;
    }
  }
}

}  // namespace
}  // namespace holdfast
