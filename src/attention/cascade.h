// Cascade: sequences whose first rows are the same memory have them scored once for all their queries.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/attend.h"

namespace holdfast {

// Whole chunks [0, chunks) that lie in the same tiles for each of these sequences, and that their queries see all of.
struct SharedPrefix {
  int64_t chunks = 0;
  std::vector<int32_t> sequences;  // indices into AttentionCall::sequences, two at least
};

// Partials of shared prefixes and of what follows them are all kept until they are folded; calls that would need more
// than these do without.
inline constexpr int64_t kMaxCascadePartials = 16384;

// Which prefixes to share; each sequence is in one at most. Sequences that decode (one query), of layers that protect no
// rows and drop none: there the answer is the same to the bit. None where two sequences' queries of a KV head are more
// than the kernels see at once. Groups are those that save most reading. May throw std::bad_alloc.
std::vector<SharedPrefix> FindSharedPrefixes(const AttentionCall& call);

}  // namespace holdfast
