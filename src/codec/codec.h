// A codec: how rows become bytes, and the kernels that work on those bytes.
//
// Rows are stored in tiles of kTileRows rows of one KV head. How bytes lie within a tile is the codec's own,
// for its K half and its V half apart. Attention never decodes: it asks the codec's kernels for scores and
// for weighted sums. A kernel is chosen by codec alone.
//
// Invariants every codec and kernel relies on:
//  * A tile that was never written is all zero bytes, and decodes to finite rows.
//  * Every stored row is finite: whoever encodes asks first_unencodable first, and refuses what the format
//    cannot carry (an infinity, a NaN, or an f16 overflow), so a row whose weight is exactly 0 contributes
//    exactly 0.
//  * Kernels work on whole tiles. Rows that a query may not see get weight 0 from the caller.
//  * One query's results are the same bits whichever other queries share the call, whatever the number of
//    queries, and however the tiles lie in memory: sums over dims and over rows have one fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codec/codec_kernels.h"
#include "holdfast/cache_config.h"
#include "simd/isa.h"

namespace holdfast {

// A codec's static description. All functions are pure and thread-safe.
struct Codec {
  CodecId id;
  std::string_view name;
  bool integer_dots;  // scores are integer dot products (of a quantised query)
  // Precision of the integer dots, in steps of the largest value: of a query (per group of dims where the codec
  // has groups) and of the weights of 64 rows. 0 where the dots are floats.
  int query_levels;
  int weight_levels;
  int bits;             // of a value, metadata not counted
  int default_group;    // dims that share a scale unless a CodecSpec says otherwise; 0: takes no group
  bool always_rotated;  // is meant for rotated rows only (see codec/transform.h)

  // Bytes of a tile of kTileRows rows, a multiple of 16. REQUIRES 1 <= dim <= kMaxDim and a group that
  // CheckGroup accepts. Any dim works: a codec pads inside the tile (K to its dot's group, V to whole vectors), and these sizes say
  // so.
  int64_t (*k_tile_bytes)(RowFormat format);
  int64_t (*v_tile_bytes)(RowFormat format);

  // Index of the first value that the format cannot carry (non-finite, or past its largest magnitude), or -1.
  int (*first_unencodable)(const float* row, RowFormat format);
  // Largest finite magnitude the format carries, for the error message.
  float max_magnitude;

  // The reference decoders: slot (0..15) of a tile to row[dim].
  void (*decode_k)(const std::byte* tile, RowFormat format, int slot, float* row);
  void (*decode_v)(const std::byte* tile, RowFormat format, int slot, float* row);

  // Bound on |x - decode(encode(x))| for every value of this row.
  float (*max_error)(const float* row, RowFormat format);

  const CodecKernels& (*kernels)(Isa isa);
};

// The codec of an id; every id of codec_list.h has one.
const Codec& GetCodec(CodecSpec spec);

// Whether rows of `dim` values may have the spec's group: 0, or a multiple of 16 that divides dim, for a codec
// that takes one. Error kInvalidArgument, naming the group and the limit.
Status CheckGroup(CodecSpec spec, int dim);

}  // namespace holdfast
