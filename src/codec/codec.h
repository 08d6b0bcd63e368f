// A codec: how rows become bytes, and the kernels that work on those bytes.
//
// Rows are stored in tiles of kTileRows rows of one KV head. How bytes lie within a tile is the codec's own,
// for its K half and its V half apart. Attention never decodes: it asks the codec's kernels for scores and for
// weighted sums. A kernel is chosen by codec alone.
//
// Invariants every codec and kernel relies on:
//  * A tile that was never written is all zero bytes, and decodes to finite rows.
//  * Every stored row is finite: EncodeRow refuses what its format cannot carry (an infinity, a NaN, or an f16
//    overflow), so a row whose weight is exactly 0 contributes exactly 0.
//  * Kernels work on whole tiles. Rows that a query may not see get weight 0 from the caller.
//  * One query's results are the same bits whichever other queries share the call, whatever the number of
//    queries, and however the tiles lie in memory: sums over dims and over rows have one fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "holdfast/cache_config.h"
#include "simd/isa.h"

namespace holdfast {

inline constexpr int kTileRows = 16;
// Attention splits the positions of a sequence at multiples of kChunkRows: partial results are per chunk.
inline constexpr int kChunkRows = 256;
inline constexpr int kChunkTiles = kChunkRows / kTileRows;
inline constexpr int kMaxDim = 1024;

// The tiles of one KV head that hold one chunk of absolute positions [chunk*256, chunk*256 + 256).
// tile[i] holds positions chunk*256 + 16*i .. +15 and may be anywhere; valid for i in [begin, end).
struct ChunkTiles {
  const std::byte* tile[kChunkTiles];
  int begin;
  int end;
};

// Per-ISA kernels of one codec's K half.
struct KeyKernels {
  // Turns one query [dim] into what `score` reads; `prepared` has prepared_bytes(dim), 64-byte aligned.
  int64_t (*prepared_bytes)(int dim);
  void (*prepare)(const float* query, int dim, std::byte* prepared);
  // scores[i*kChunkRows + r] = <query_i, row r> for i in [0, queries), r in tiles [begin, end); other entries
  // are left alone. Query i's prepared bytes start at prepared + i * prepared_bytes(dim).
  void (*score)(const std::byte* prepared, int queries, int dim, const ChunkTiles& tiles, float* scores);
};

// Per-ISA kernels of one codec's V half. weights[i*kChunkRows + r] >= 0, and exactly 0 for rows that query i does
// not see; entries outside tiles [begin, end) are not read.
struct ValueKernels {
  // out[i*out_stride + d] = sum over r of weights[i][r] * v[r][d], d in [0, dim). Overwrites. out_stride is a
  // multiple of 16 and >= dim; lanes between dim and the next multiple of 16 are set to anything finite.
  // row_dim is the dim the tiles were written with: dim itself for V tiles, k_dim for a latent row's K tiles.
  void (*accumulate)(const float* weights, int queries, int dim, int row_dim, const ChunkTiles& tiles, float* out,
                     int64_t out_stride);
};

// Everything of a codec that is compiled per instruction set.
struct CodecKernels {
  KeyKernels key;
  ValueKernels value;         // over V tiles
  ValueKernels latent_value;  // over K tiles: V is the prefix of the K row
  // Encode row[dim] into slot (0..15) of a tile; the tile's other slots keep their bytes. The bytes are the same
  // on every instruction set. REQUIRES FirstUnencodable(row, dim) < 0.
  void (*encode_k)(const float* row, int dim, int slot, std::byte* tile);
  void (*encode_v)(const float* row, int dim, int slot, std::byte* tile);
};

// A codec's static description. All functions are pure and thread-safe.
struct Codec {
  CodecId id;
  std::string_view name;
  bool integer_dots;  // scores are integer dot products (of a quantised query)

  // Bytes of a tile of kTileRows rows of `dim` values, a multiple of 16. REQUIRES 1 <= dim <= kMaxDim. Any dim
  // works: a codec pads inside the tile (K to its dot's group, V to whole vectors), and these sizes say so.
  int64_t (*k_tile_bytes)(int dim);
  int64_t (*v_tile_bytes)(int dim);

  // Index of the first value that the format cannot carry (non-finite, or past its largest magnitude), or -1.
  int (*first_unencodable)(const float* row, int dim);
  // Largest finite magnitude the format carries, for the error message.
  float max_magnitude;

  // The reference decoders: slot (0..15) of a tile to row[dim].
  void (*decode_k)(const std::byte* tile, int dim, int slot, float* row);
  void (*decode_v)(const std::byte* tile, int dim, int slot, float* row);

  // Bound on |x - decode(encode(x))| for every value of this row.
  float (*max_error)(const float* row, int dim);

  const CodecKernels& (*kernels)(Isa isa);
};

// The codec of an id; every id of codec_list.h has one.
const Codec& GetCodec(CodecId id);

}  // namespace holdfast
