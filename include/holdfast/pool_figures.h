// What a pool of caches says of itself and of each request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

// Why a request did not reuse more of what it begins with.
enum class MissCause : uint8_t {
  kNone,            // nothing more could have been reused
  kNew,             // nothing that begins like it is stored
  kTokenDiffers,    // what is stored goes on with another token (Receipt::position)
  kOtherNamespace,  // stored, but another tenant's. In figures alone, never the cause of a receipt
  kOtherConfig,     // stored, but for another model, codec, layout or adapter
  kEvicted,         // was stored, given up for want of room or after its time
  kWindowGone,      // the rows that a window layer needs there are no longer stored
  kDisabled,        // prefixes are not shared
};
std::string_view MissCauseName(MissCause cause);  // "none", "new", "token_differs", ...
inline constexpr int kMissCauses = 8;

// What became of a request's prefix.
struct Receipt {
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // not evaluated again; at most prompt_tokens - 1
  MissCause miss = MissCause::kNone;
  int64_t position = 0;      // where a longer match failed
  std::string message = {};  // for people
  // Another namespace has more of the prompt. All that is above is as if there were no other, and may be told to whoever
  // asked; this may not.
  bool in_other_namespace = false;
};

// Blocks of rows: total = free + live + idle. live: of some running sequence. idle: kept for a later request alone.
struct BlockCounts {
  int64_t total = 0, free = 0, live = 0, idle = 0;
};

}  // namespace holdfast
