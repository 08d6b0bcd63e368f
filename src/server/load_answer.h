// One streamed completion as a client sees it: when text came, and what the server counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "server/sse_reader.h"

namespace holdfast::load {

struct AnswerFigures {
  int64_t first_text_ns = -1;  // -1: no text came
  std::vector<float> gaps_ms;  // between pieces of text
  int64_t output_tokens = 0;   // of the server's usage; without one, pieces of text
  int64_t prompt_tokens = 0, cached_tokens = 0;
};

class AnswerReader {
 public:
  // Bytes of the body as they arrive; `now_ns` is of any clock that goes on. False: nothing more is worth reading.
  bool Feed(std::string_view bytes, int64_t now_ns);
  // Once the body has ended. Errors: kDataLoss (malformed, cut off, empty), kFailedPrecondition (the server's own
  // message in the middle of the stream).
  Result<AnswerFigures> Finish() const;

 private:
  void Event(std::string_view data, int64_t now_ns);
  void Fail(Status status);

  SseReader events_;
  AnswerFigures figures_;
  int64_t pieces_ = 0, last_text_ns_ = 0;
  bool has_usage_ = false, done_ = false;
  Status failure_;
};

// The message of an OpenAI error object, or the beginning of a body that is none.
std::string ErrorText(std::string_view body);

}  // namespace holdfast::load
