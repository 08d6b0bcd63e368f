// The rows of one cache written into another of other codecs: the end of a two-phase prefill.
#pragma once

#include "base/thread_pool.h"
#include "cache/sequence_cache.h"

namespace holdfast {

// Gives `to`, which is empty, the tokens of `from`: every live row is decoded, transformed and encoded as `to`'s
// layers say. Rows that `from` no longer holds, which no query sees, are zeros. REQUIRES the two to differ in
// codecs, transforms and protection alone, `from` to have no transforms, and to.config().rewind_tokens to be that of
// `from`. Errors: kResourceExhausted; kInvalidArgument (a value that a codec of `to` cannot carry); `to` is empty
// then.
Status Reencode(const SequenceCache& from, SequenceCache& to, ThreadPool& pool);

}  // namespace holdfast
