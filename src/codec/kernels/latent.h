// Weighted sums over K tiles: a latent row's V is the prefix of its K, and a K tile's lanes are rows.
//
// Each lane keeps its own sum over the tiles of the chunk (row 0, 16, 32 ... in lane 0), and the sixteen sums
// are added by HSum's fixed tree at the end, so one query's bits do not depend on blocking. Over a Rows:
//   struct Rows {
//     // Dims [d, d + 4) of the tile's 16 rows, d a multiple of 4; a dim at or past row.dim may be anything
//     finite. static void Load4(const std::byte* tile, int d, RowFormat row, F32x16* x);
//     // What to multiply them with: 16 weights, times the rows' scales where the codec has them.
//     static F32x16 Weights(const float* weights, const std::byte* tile, RowFormat row);
//   };
// Included by kernel files only.
#pragma once

#include "codec/kernels/query_blocks.h"

namespace holdfast::HOLDFAST_ISA_NS {

#if defined(HOLDFAST_ISA_AVX512)
inline constexpr int kLatentQueries = 6;  // x 4 dims = 24 accumulators
#elif defined(HOLDFAST_ISA_SCALAR)
inline constexpr int kLatentQueries = 1;
#else
inline constexpr int kLatentQueries = 2;
#endif
inline constexpr int kLatentBatch = 24;  // queries whose scaled weights are kept on the stack

template <typename Rows>
struct LatentBlock {
  template <int Q>
  HF_NOINLINE static void Run(int first, const float* scaled, int dim, RowFormat row, const ChunkTiles* tiles,
                              float* out, int64_t out_stride) {
    const float* weights = scaled + first * kChunkRows;
    for (int d = 0; d < dim; d += 4) {
      F32x16 sum[Q][4];
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) sum[q][j] = Zero();
      }
      for (int i = tiles->begin; i < tiles->end; ++i) {
        F32x16 x[4];
        Rows::Load4(tiles->tile[i], d, row, x);
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
          const F32x16 w = Load(weights + q * kChunkRows + i * kTileRows);
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) sum[q][j] = Fma(w, x[j], sum[q][j]);
        }
      }
      for (int q = 0; q < Q; ++q) {
        // + 0.0f: a sum of -0 must not differ from the same sum beside rows of weight 0.
        for (int j = 0; j < 4; ++j) out[(first + q) * out_stride + d + j] = HSum(sum[q][j]) + 0.0f;
      }
    }
  }
};

template <typename Rows>
static void AccumulateLatent(const float* weights, int queries, int dim, RowFormat row,
                             const ChunkTiles& tiles, float* out, int64_t out_stride) {
  alignas(64) float scaled[kLatentBatch * kChunkRows];
  for (int first = 0; first < queries; first += kLatentBatch) {
    const int batch = queries - first < kLatentBatch ? queries - first : kLatentBatch;
    for (int q = 0; q < batch; ++q) {
      for (int i = tiles.begin; i < tiles.end; ++i) {
        const int at = q * kChunkRows + i * kTileRows;
        Store(scaled + at, Rows::Weights(weights + first * kChunkRows + at, tiles.tile[i], row));
      }
    }
    float* to = out + first * out_stride;
    ForQueryBlocks<LatentBlock<Rows>, kLatentQueries>(batch, static_cast<const float*>(scaled), dim, row,
                                                      &tiles, to, out_stride);
    const int written = (dim + 3) / 4 * 4;
    const int padded = (dim + 15) / 16 * 16;
    for (int q = 0; q < batch; ++q) {
      for (int d = written; d < padded; ++d) to[q * out_stride + d] = 0.0f;
    }
  }
}

}  // namespace holdfast::HOLDFAST_ISA_NS
