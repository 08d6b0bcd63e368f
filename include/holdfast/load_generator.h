// A load for any server that speaks OpenAI's completions: `holdfast bench serve`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct LoadOptions {
  std::string url;              // http://HOST[:PORT][/PATH]; a /v1 at its end is taken off, https is refused
  std::string api_key;          // sent as a bearer token; empty: none
  std::string model;            // empty: the first that /v1/models lists
  int clients = 8;              // closed loop: each sends its next request when the last one ended
  double rate_per_s = 0.0;      // > 0: open loop, Poisson arrivals, whatever has ended
  int64_t requests = 24;        // with a trace: its first so many, 0: all
  int64_t prompt_tokens = 500;  // about: prompts are made of words that most tokenizers have
  int64_t shared_tokens = 0;    // the first so many are the same in every prompt
  int64_t output_tokens = 64;   // asked for; ignore_eos is sent too, so that answers are as long as asked for
  std::string
      trace_path;  // Mooncake's format (request_trace.h): lengths, arrivals and shared blocks come from it
  double trace_speed = 1.0;       // 2: arrivals twice as fast as in the trace
  int64_t max_prompt_tokens = 0;  // of a trace: longer prompts lose their end; 0: none
  int64_t max_output_tokens = 0;  // of a trace: longer answers are cut; 0: none
  uint64_t seed = 1;  // of prompts and arrivals; a server may remember the prompts of an earlier run
  int64_t timeout_ms = 300'000;  // a request that hears nothing for so long is an error
  std::function<void(int64_t done, int64_t total)> progress;  // called on RunLoad's thread
};

// Nearest ranks. Zeros where count is 0.
struct LatencyFigures {
  int64_t count = 0;
  double p50 = 0, p99 = 0, max = 0;
};

struct LoadFigures {
  int64_t requests = 0;  // sent
  int64_t errors = 0;    // of those: refused, cut off, malformed or silent; they count in nothing else
  int64_t output_tokens = 0, prompt_tokens = 0, cached_tokens = 0;  // as the server counts them
  double seconds = 0;  // from the first request sent to the last one's end
  double output_tokens_per_s = 0;
  LatencyFigures ttft_ms;     // to the first text; from the arrival that was planned where the loop is open
  LatencyFigures gap_ms;      // between pieces of text of one answer
  LatencyFigures request_ms;  // to the end of the answer
  std::vector<std::string> error_messages;  // the first few, different ones
};

// Sends streamed completions from one thread and waits for all of them. Errors: kInvalidArgument (an option, a trace
// line), kNotFound (no such trace), kIoError (no server there, no model).
Result<LoadFigures> RunLoad(const LoadOptions& options);

}  // namespace holdfast
