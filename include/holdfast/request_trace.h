// Traces of requests in Mooncake's format: one JSON object a line with `timestamp` (ms), `input_length`, `output_length`
// (tokens) and `hash_ids` (one a block of 512 prompt tokens; equal ids are equal text after an equal beginning). Published
// with Qin et al., "Mooncake: A KVCache-centric Disaggregated Architecture for LLM Serving", 2024.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr int64_t kTraceBlockTokens = 512;

struct TraceRequest {
  int64_t timestamp_ms = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  std::vector<int64_t>
      hash_ids;  // ceil(input_tokens / kTraceBlockTokens) of them; the last block may be shorter
};

// The requests in the order of the file; empty lines are skipped, unknown fields ignored. Errors: kNotFound (no such
// file), kIoError, kInvalidArgument (a line that is no such request: names line and field; timestamps that go back; none
// at all).
Result<std::vector<TraceRequest>> ReadRequestTrace(const std::string& path);

}  // namespace holdfast
