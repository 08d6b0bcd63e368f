#include "span/decode_row.h"

#include "codec/codec.h"

namespace holdfast {
namespace {

// Of the tile that holds the position, counted from the span's first.
int64_t TileOf(const Span& span, int64_t position) {
  return position / kTileRows - span.begin / kTileRows;
}

int SlotOf(int64_t position) {
  return static_cast<int>(position % kTileRows);
}

}  // namespace

void DecodeKey(const Span& span, CodecSpec spec, int dim, int64_t position, int64_t head, float* row) {
  const Codec& codec = GetCodec(spec);
  const RowFormat format(dim, spec.group);
  const std::byte* tile =
      span.k + head * span.k_head_stride_bytes + TileOf(span, position) * codec.k_tile_bytes(format);
  codec.decode_k(tile, format, SlotOf(position), row);
}

void DecodeValue(const Span& span, CodecSpec spec, int dim, int64_t position, int64_t head, float* row) {
  const Codec& codec = GetCodec(spec);
  const RowFormat format(dim, spec.group);
  const std::byte* tile =
      span.v + head * span.v_head_stride_bytes + TileOf(span, position) * codec.v_tile_bytes(format);
  codec.decode_v(tile, format, SlotOf(position), row);
}

}  // namespace holdfast
