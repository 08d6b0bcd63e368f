// q8_0 stores what GGML's own quantiser stores, and so does q4_0 where a block lies on the levels of GGML's scale: the
// formulas of quantize_row_q8_0_ref and quantize_row_q4_0_ref (ggml-quants.c), restated plainly, block by block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codec/codec.h"
#include "codec/codec_testing.h"
#include "codec/packed_layout.h"

namespace holdfast {
namespace {

using testing_codec::AlignedBytes;
using testing_codec::NormalRow;

constexpr int kBlock = 32;

struct Block {
  uint16_t scale = 0;
  std::vector<int> codes;
};

Block Q8_0(const float* x, int n) {
  float amax = 0.0f;
  for (int i = 0; i < n; ++i) amax = std::max(amax, std::fabs(x[i]));
  const float d = amax / 127.0f;
  const float id = d != 0.0f ? 1.0f / d : 0.0f;
  Block block{F32ToF16(d), {}};
  for (int i = 0; i < n; ++i) block.codes.push_back(static_cast<int>(std::round(x[i] * id)));
  return block;
}

Block Q4_0(const float* x, int n) {
  float amax = 0.0f;
  float max = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (amax < std::fabs(x[i])) {
      amax = std::fabs(x[i]);
      max = x[i];
    }
  }
  const float d = max / -8.0f;
  const float id = d != 0.0f ? 1.0f / d : 0.0f;
  Block block{F32ToF16(d), {}};
  for (int i = 0; i < n; ++i) {
    const float shifted = x[i] * id + 8.5f;
    block.codes.push_back(std::min(15, static_cast<int>(static_cast<int8_t>(shifted))));
  }
  return block;
}

// Rows with both signs of the largest value, ties between codes and between magnitudes.
std::vector<std::vector<float>> Rows(int dim) {
  std::mt19937 rng(31);
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 40; ++i) rows.push_back(NormalRow(rng, dim, std::ldexp(1.0f, i % 9 - 4)));
  std::vector<float> ties(static_cast<size_t>(dim));
  for (size_t d = 0; d < ties.size(); ++d) ties[d] = static_cast<float>(d % 64) * 0.5f - 8.0f;
  rows.push_back(ties);
  for (size_t d = 0; d < ties.size(); ++d)
    ties[d] = d % 2 == 0 ? -127.0f + static_cast<float>(d) * 1.5f : 127.0f;
  rows.push_back(ties);
  rows.emplace_back(static_cast<size_t>(dim), 0.0f);
  return rows;
}

struct Format {
  CodecId id;
  int bits;
  int zero;  // of a stored K code
  Block (*quantise)(const float*, int);
  int ggml_zero;  // of GGML's code
  bool searched;
};
const Format kFormats[] = {{CodecId::kQ8_0, 8, 128, Q8_0, 0, false}, {CodecId::kQ4_0, 4, 0, Q4_0, 8, true}};

// The row as GGML would give it back.
std::vector<float> OnLevels(const Format& format, const std::vector<float>& row) {
  std::vector<float> to;
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const size_t n = std::min<size_t>(kBlock, row.size() - begin);
    const Block block = format.quantise(row.data() + begin, static_cast<int>(n));
    for (const int code : block.codes) {
      to.push_back(static_cast<float>(code - format.ggml_zero) * F16ToF32(block.scale));
    }
  }
  return to;
}

TEST(GgmlBlocks, HoldTheCodesAndScalesOfGgmlsQuantisers) {
  for (const Format& format : kFormats) {
    const Codec& codec = GetCodec(format.id);
    for (const Isa isa : VectorIsas()) {
      for (const int dim : {32, 64, 80, 128}) {
        for (const auto& any : Rows(dim)) {
          const std::vector<float> row = format.searched ? OnLevels(format, any) : any;
          constexpr int kSlot = 11;
          AlignedBytes tile(codec.k_tile_bytes(dim));
          codec.kernels(isa).encode_k(row.data(), dim, kSlot, tile.data());
          for (int begin = 0; begin < dim; begin += kBlock) {
            const int n = std::min(kBlock, dim - begin);
            const Block block = format.quantise(row.data() + begin, n);
            uint16_t scale;
            std::memcpy(
                &scale,
                tile.data() + KScalesAt(format.bits, dim) + begin / kBlock * kPackedScaleBytes + kSlot * 2,
                2);
            ASSERT_EQ(scale, block.scale) << codec.name << " block at " << begin;
            for (int i = 0; i < n; ++i) {
              const CodePlace place = KCodePlace(format.bits, kSlot, begin + i);
              const int stored =
                  std::to_integer<int>(tile.data()[place.byte]) >> place.shift & ((1 << format.bits) - 1);
              ASSERT_EQ(stored - format.zero, block.codes[static_cast<size_t>(i)])
                  << codec.name << " " << row[static_cast<size_t>(begin + i)] << " at " << begin + i;
            }
          }
        }
      }
    }
  }
}

TEST(GgmlBlocks, DecodeToTheSameValuesInBothHalves) {
  for (const Format& format : kFormats) {
    const Codec& codec = GetCodec(format.id);
    for (const auto& row : Rows(80)) {
      AlignedBytes k(codec.k_tile_bytes(80));
      AlignedBytes v(codec.v_tile_bytes(80));
      std::vector<float> from_k(80);
      std::vector<float> from_v(80);
      codec.kernels(ActiveIsa()).encode_k(row.data(), 80, 3, k.data());
      codec.kernels(ActiveIsa()).encode_v(row.data(), 80, 3, v.data());
      codec.decode_k(k.data(), 80, 3, from_k.data());
      codec.decode_v(v.data(), 80, 3, from_v.data());
      ASSERT_EQ(from_k, from_v) << codec.name;
    }
  }
}

}  // namespace
}  // namespace holdfast
