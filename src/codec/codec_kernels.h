// What of a codec is compiled per instruction set: the seam between attention and the bytes of a tile.
//
// Plain declarations only, because per-ISA kernel files include this header. The invariants that codecs and
// kernels rely on are listed in codec.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast {

inline constexpr int kTileRows = 16;
// Attention splits the positions of a sequence at multiples of kChunkRows: partial results are per chunk.
inline constexpr int kChunkRows = 256;
inline constexpr int kChunkTiles = kChunkRows / kTileRows;
inline constexpr int kMaxDim = 1024;

// The values of a row and how they are cut. A plain number is a row of that many dims.
struct RowFormat {
  int dim;
  int group;  // dims that share a scale, for codecs with groups; 0: the codec's default

  // Always inlined: kernel files must not leave a copy that the linker could share.
  // NOLINTNEXTLINE(google-explicit-constructor)
  __attribute__((always_inline)) constexpr RowFormat(int dims, int group_dims = 0)
      : dim(dims), group(group_dims) {}
};

// The tiles of one KV head that hold one chunk of absolute positions [chunk*256, chunk*256 + 256).
// tile[i] holds positions chunk*256 + 16*i .. +15 and may be anywhere, 16-byte aligned; valid for i in
// [begin, end).
struct ChunkTiles {
  const std::byte* tile[kChunkTiles];
  int begin;
  int end;
  // Optional: what will be read after these tiles (the V half's of this chunk, the next chunk's), so that its
  // first tiles are asked for while the last of these are worked on. A hint that changes no result.
  const ChunkTiles* next = nullptr;
};

// Per-ISA kernels of one codec's K half.
struct KeyKernels {
  // Turns one query [dim] of finite values into what `score` reads; `prepared` has prepared_bytes, a
  // multiple of 64, 64-byte aligned.
  int64_t (*prepared_bytes)(RowFormat format);
  void (*prepare)(const float* query, RowFormat format, std::byte* prepared);
  // scores[i*kChunkRows + r] = <query_i, row r> for i in [0, queries), r in tiles [begin, end); other entries
  // are left alone. Query i's prepared bytes start at prepared + i * prepared_bytes.
  void (*score)(const std::byte* prepared, int queries, RowFormat format, const ChunkTiles& tiles,
                float* scores);
};

// Per-ISA kernels of one codec's V half. weights[i*kChunkRows + r] >= 0, and exactly 0 for rows that query i
// does not see; entries outside tiles [begin, end) are not read.
struct ValueKernels {
  // out[i*out_stride + d] = sum over r of weights[i][r] * v[r][d], d in [0, dim). Overwrites. out_stride is a
  // multiple of 16 and >= dim; lanes between dim and the next multiple of 16 are set to anything finite.
  // `row` is the format that the tiles were written with; its dim is `dim` for V tiles, k_dim for a latent
  // row's K tiles.
  // Tiles whose weights are all 0 may be left out of [begin, end) without changing a bit of the result.
  void (*accumulate)(const float* weights, int queries, int dim, RowFormat row, const ChunkTiles& tiles,
                     float* out, int64_t out_stride);
};

// Everything of a codec that is compiled per instruction set.
struct CodecKernels {
  KeyKernels key;
  ValueKernels value;         // over V tiles
  ValueKernels latent_value;  // over K tiles: V is the prefix of the K row
  // Encode row[dim] into slot (0..15) of a tile; the tile's other slots keep their bytes. The bytes are the
  // same on every instruction set. REQUIRES Codec::first_unencodable < 0.
  void (*encode_k)(const float* row, RowFormat format, int slot, std::byte* tile);
  void (*encode_v)(const float* row, RowFormat format, int slot, std::byte* tile);
};

}  // namespace holdfast
