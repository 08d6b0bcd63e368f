// A trace of requests through the real prefix index and its eviction, without a model: `holdfast replay`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// A request finds the longest stored prefix of its prompt, computes the rest, and leaves all of it stored, at once: in
// the order of the trace, whatever its times say. Answers are not stored: a trace has no ids for them. The oldest blocks
// give way, those furthest from the root first; a prompt larger than the budget leaves as much of its beginning as fits.
struct ReplayOptions {
  std::string trace_path = {};               // as ReadRequestTrace takes it (holdfast/request_trace.h)
  std::vector<int64_t> budgets_tokens = {};  // a cell each: tokens that stay stored; 0: no limit
  int block_tokens =
      32;  // of the pool, for waste: a power of two, 16 to 256. The trace's own blocks, of 512, are shared
  int64_t bytes_per_token = 0;  // for peak_bytes; 0: not known
};

struct ReplayCell {
  int64_t budget_tokens = 0;
  int64_t requests = 0;
  int64_t hit_tokens = 0;    // of prompts, not computed again: at most all but one of each
  int64_t total_tokens = 0;  // of prompts
  double hit_rate = 0.0;     // hit_tokens / total_tokens
  int64_t evictions = 0;     // blocks of 512
  int64_t peak_tokens = 0;   // stored at one time
  int64_t peak_bytes = 0;    // peak_tokens * bytes_per_token
  double waste = 0.0;        // share of the pool's rows that no token is in, the mean over requests
  double peak_waste = 0.0;   // and the largest
};

// Errors: those of ReadRequestTrace; kInvalidArgument (a negative budget or none, block_tokens, bytes_per_token),
// kOutOfRange (a peak_bytes that does not fit).
Result<std::vector<ReplayCell>> ReplayTrace(const ReplayOptions& options);

}  // namespace holdfast
