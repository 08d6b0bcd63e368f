// Log probabilities of one choice in OpenAI's two forms.
#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/serving.h"
#include "server/json_body.h"

namespace holdfast::server {

class ChoiceLogprobs {
 public:
  // text_offset: characters of the choice's text before its first token (an echoed prompt). The engine must
  // outlive this.
  ChoiceLogprobs(const Engine& engine, bool is_chat, int64_t text_offset);

  // A token drawn. REQUIRES event.logprob.
  void Add(const ServingEvent& event);
  // What was added since the last Take; null where that is nothing.
  OrderedJson Take();

 private:
  struct Drawn {
    TokenLogprob token;
    std::vector<TokenLogprob> top;
  };
  OrderedJson ChatJson() const;
  OrderedJson CompletionJson();

  const Engine* engine_;
  bool is_chat_;
  int64_t text_offset_;
  std::vector<Drawn> pending_;  // as numbers: as JSON it would be fifty times the size
};

}  // namespace holdfast::server
