// One stored row of a span, decoded: for what is to be plain before it is fast. Attention never decodes.
#pragma once

#include <cstdint>

#include "holdfast/cache_config.h"
#include "span/span.h"

namespace holdfast {

// The K or V row of KV head `head` at `position`, which `codec` encoded, to row [dim]. REQUIRES a position within the
// span, and for V rows of their own: not a latent row's.
void DecodeKey(const Span& span, CodecSpec codec, int dim, int64_t position, int64_t head, float* row);
void DecodeValue(const Span& span, CodecSpec codec, int dim, int64_t position, int64_t head, float* row);

}  // namespace holdfast
