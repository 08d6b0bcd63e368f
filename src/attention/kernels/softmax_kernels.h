// What attention computes itself, between the codec's scores and weighted sums: the softmax of a chunk and
// the algebra of partial.h. One table an instruction set. Plain types only: kernels include this.
#pragma once

#include <cstdint>

#include "attention/partial.h"

namespace holdfast {

// How a raw score <q, k> becomes a base-2 logit: score * scale, or cap * tanh(score * scale) where cap is not
// 0. log2(e) is folded in: see MakeScoreRule.
struct ScoreRule {
  float scale = kLog2E;
  float cap = 0.0f;
};
inline ScoreRule MakeScoreRule(float scale, float softcap) {
  if (softcap > 0.0f) return {scale / softcap, softcap * kLog2E};
  return {scale * kLog2E, 0.0f};
}

// The rows of one chunk that one query sees: [begin0, end0) and [begin1, end1), each within [0, kChunkRows],
// the first wholly before the second, either possibly empty.
struct ChunkView {
  int32_t begin0 = 0;
  int32_t end0 = 0;
  int32_t begin1 = 0;
  int32_t end1 = 0;

  bool empty() const { return begin0 == end0 && begin1 == end1; }
};

struct SoftmaxKernels {
  // Turns scores[i*kChunkRows + r] into weights in place, for tiles [tile_begin, tile_end) of query i, and
  // sets heads[i]; offsets[i] is added to each of its scores. A row that the view leaves out gets weight
  // exactly 0, whatever its score. A query that sees nothing gets the empty head. A query that sees a score
  // that is not finite, or whose poisoned[i] is set, gets weights 0 and d = NaN. REQUIRES every view within
  // the tiles.
  void (*softmax)(float* scores, const ChunkView* views, const bool* poisoned, const float* offsets,
                  int queries, int tile_begin, int tile_end, const ScoreRule& rule, PartialHead* heads);

  // Sets weights to 0 that are below `threshold` of what query i's rows weigh together, as far as that is known:
  // of the chunk's own d or of the reference partial's, whichever is more. Returns a bit for each tile of
  // [tile_begin, tile_end) in which some query's weight is left. What is dropped stays in d: the weights left are
  // those of the exact softmax.
  uint32_t (*drop_small)(float* weights, int queries, int tile_begin, int tile_end, const PartialHead* heads,
                         const PartialHead* reference, float threshold);

  // a[i] = merge(a[i], b[i]) for i in [0, queries). o [queries, stride], stride a multiple of 16. The o of an
  // empty partial is never read.
  void (*merge)(PartialHead* a, float* a_o, const PartialHead* b, const float* b_o, int queries,
                int64_t stride);

  // Merges the sink partial {0, sink_m, 1} (kEmptyMax: none) and writes o / d to out [dim]; zeros if no row
  // was seen. center [dim], where not null, is what every row lacks: o + d * center is divided then, with the
  // d of the rows alone above.
  void (*finish)(const PartialHead& a, const float* o, float sink_m, const float* center, int dim,
                 float* out);

  // True if no value of x [n] is infinite or NaN.
  bool (*all_finite)(const float* x, int n);
};

}  // namespace holdfast
