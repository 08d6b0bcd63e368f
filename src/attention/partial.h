// The algebra of partial attention results, stated once.
//
// A partial over a set of rows is {o, m, d} for one query:
//   m = max of log2(e) * score over the rows      (base-2 logarithms everywhere)
//   d = sum of 2^(log2(e)*score - m)
//   o = sum of 2^(log2(e)*score - m) * v           [v_dim], not divided by d
// The partial of no rows is {0, -infinity, 0}; merging it with x gives x, bit for bit, on either side. Merge
// is
//   m = max(a.m, b.m);  d = a.d * 2^(a.m - m) + b.d * 2^(b.m - m);  o likewise
// and the output is o / d; zeros where no row was seen. Merging is commutative but, in floats, not
// associative: the order is fixed, ascending chunks from the left, then the sink logit, and nothing else
// (threads, batches, storage) may choose it. Split-KV, cascade and sinks-as-logits (a partial {0,
// log2(e)*logit, 1}) are all this merge.
//
// A query that scores anything but a finite number has d = NaN, and so has all that is merged with it.
// Source: Milakov & Gimelshein 2018 (online softmax); FlashInfer (attention states), arXiv:2501.01005.
#pragma once

namespace holdfast {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kEmptyMax = -__builtin_inff();

// The scalar part of a partial; o lies beside it, in memory of the caller.
struct PartialHead {
  float m = kEmptyMax;
  float d = 0.0f;
};

}  // namespace holdfast
