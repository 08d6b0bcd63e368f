// The cube: every layout x codec x storage x operation, tried out.
#pragma once

#include <string>
#include <vector>

#include "holdfast/cache_config.h"

namespace holdfast {

struct MatrixCell {
  LayoutId layout = LayoutId::kFull;
  StorageId storage = StorageId::kContiguous;
  CodecId codec = CodecId::kF32;  // of K and V alike
  bool latent = false;            // rows whose V is a prefix of K
  std::string operation;
  std::string refused;  // why ValidateCacheConfig refuses the configuration; empty: exact
};

struct MatrixPair {
  KvSpec codecs;
  std::string refused;
};

struct Matrix {
  std::vector<MatrixCell> cells;  // by layout, storage, row shape, codec, operation, in the lists' order
  std::vector<MatrixPair> refused_pairs;  // of all pairs of different codecs for K and V
  int pairs = 0;                          // how many of those there are
};

// Runs a small program in every cell that the configuration check lets through, and compares with a cache that
// was filled in one call:
//   append  what is allocated is what PlanCache says, at every length
//   attend  token by token and in uneven chunks, the outputs are the same bits
//   batch   the same bits in one step with another sequence
//   rewind  tokens taken back and fed again give the same bits, past a window's end too
//   fork    the copy goes on with the same bits, and so does the original
//   rotate, center  rows are transformed before they are encoded; the same bits as for attend
//   protect  with sinks and recent rows kept in f16 as well, what append, attend and rewind say
// Error kInternal where a cell that was let through is not exact: a fault of ours, named. A second or so.
Result<Matrix> CheckMatrix();

}  // namespace holdfast
