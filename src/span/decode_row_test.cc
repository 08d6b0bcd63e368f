// A span's rows are found by their absolute position, whatever tile the span begins in.
#include "span/decode_row.h"

#include <gtest/gtest.h>

#include <vector>

#include "codec/codec.h"

namespace holdfast {
namespace {

constexpr int kHeads = 2, kKeyDim = 8, kValueDim = 6;
constexpr int64_t kFirstTile = 3, kTiles = 3, kHeadPaddingBytes = 64;

float KeyAt(int64_t position, int64_t head, int d) {
  return static_cast<float>(position * 100 + head * 50 + d);
}
float ValueAt(int64_t position, int64_t head, int d) {
  return -KeyAt(position, head, d);
}

// Tiles 3, 4 and 5 of two heads, every row written.
class EncodedTiles {
 public:
  explicit EncodedTiles(CodecSpec codec_spec)
      : codec_(GetCodec(codec_spec)),
        k_stride_(kTiles * codec_.k_tile_bytes(kKeyDim) + kHeadPaddingBytes),
        v_stride_(kTiles * codec_.v_tile_bytes(kValueDim) + kHeadPaddingBytes),
        k_(static_cast<size_t>(kHeads * k_stride_)),
        v_(static_cast<size_t>(kHeads * v_stride_)) {
    const CodecKernels& kernels = codec_.kernels(Isa::kScalar);
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t i = 0; i < kTiles * kTileRows; ++i) {
        const int64_t position = kFirstTile * kTileRows + i;
        float k[kKeyDim], v[kValueDim];
        for (int d = 0; d < kKeyDim; ++d) k[d] = KeyAt(position, head, d);
        for (int d = 0; d < kValueDim; ++d) v[d] = ValueAt(position, head, d);
        const int64_t tile = i / kTileRows;
        const int slot = static_cast<int>(i % kTileRows);
        kernels.encode_k(k, kKeyDim, slot,
                         k_.data() + head * k_stride_ + tile * codec_.k_tile_bytes(kKeyDim));
        kernels.encode_v(v, kValueDim, slot,
                         v_.data() + head * v_stride_ + tile * codec_.v_tile_bytes(kValueDim));
      }
    }
  }

  Span From(int64_t begin) const {
    const int64_t tile = begin / kTileRows - kFirstTile;
    return {.begin = begin,
            .rows = (kFirstTile + kTiles) * kTileRows - begin,
            .k = k_.data() + tile * codec_.k_tile_bytes(kKeyDim),
            .v = v_.data() + tile * codec_.v_tile_bytes(kValueDim),
            .k_head_stride_bytes = k_stride_,
            .v_head_stride_bytes = v_stride_};
  }

 private:
  const Codec& codec_;
  int64_t k_stride_, v_stride_;
  std::vector<std::byte> k_, v_;
};

TEST(DecodedRow, IsTheOneAtItsPositionAndHeadWhereverTheSpanBegins) {
  for (const CodecId codec : {CodecId::kF32, CodecId::kF16}) {
    const EncodedTiles tiles(codec);
    for (const int64_t begin : {48, 49, 63, 64, 79, 95}) {
      const Span span = tiles.From(begin);
      for (int64_t position = begin; position < span.end(); ++position) {
        for (int64_t head = 0; head < kHeads; ++head) {
          float k[kKeyDim], v[kValueDim];
          DecodeKey(span, codec, kKeyDim, position, head, k);
          DecodeValue(span, codec, kValueDim, position, head, v);
          const float step = codec == CodecId::kF32 ? 0.0f : 4.0f;  // of an f16 below 9700
          for (int d = 0; d < kKeyDim; ++d) ASSERT_NEAR(k[d], KeyAt(position, head, d), step);
          for (int d = 0; d < kValueDim; ++d) ASSERT_NEAR(v[d], ValueAt(position, head, d), step);
        }
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
