// Log probabilities of one choice in OpenAI's two forms.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/serving.h"
#include "server/json_body.h"

namespace holdfast::server {

// What `tokens` tokens take as JSON, about, each with `top` others beside it.
size_t LogprobsJsonBytes(size_t tokens, size_t top);

class ChoiceLogprobs {
 public:
  // echo: the choice's text before its first token (an echoed prompt). The engine must outlive this.
  ChoiceLogprobs(const Engine& engine, bool is_chat, std::string_view echo);

  // The tokens of an echoed prompt, before any Add. others: of the second and those that follow; the first has none.
  void AddPrompt(std::span<const int32_t> tokens, std::vector<PositionLogprobs> others);

  // A token drawn. REQUIRES event.logprob.
  void Add(const ServingEvent& event);
  // What was added since the last Take; null where that is nothing.
  OrderedJson Take();
  // The same for a choice that is answered as a whole: of none there are lists of none.
  OrderedJson TakeAll();
  size_t json_bytes() const;  // of what Take would return, about

 private:
  OrderedJson ChatJson() const;
  OrderedJson CompletionJson();
  OrderedJson TopJson(const PositionLogprobs& drawn, const std::string& name) const;

  const Engine* engine_;
  bool is_chat_;
  int64_t text_offset_;
  bool has_first_ =
      false;  // pending_ begins with the first token of a prompt, which nothing has made probable
  std::vector<PositionLogprobs> pending_;  // as numbers: as JSON it would be fifty times the size
};

}  // namespace holdfast::server
