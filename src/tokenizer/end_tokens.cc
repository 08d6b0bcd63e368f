#include "tokenizer/end_tokens.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace holdfast {
namespace {

constexpr std::string_view kEnds[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>",
    "[e~[",
    // What pads or separates files in fill-in-the-middle training: nothing sensible follows them.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<REPO>", "<reponame>", "<|file_sep|>"};
constexpr std::string_view kMarks[] = {
    "<|fim_prefix|>", "<fim-prefix>",    "<fim_prefix>",   "<｜fim▁begin｜>", "<PRE>",
    "▁<PRE>",         "<|code_prefix|>", "<|fim_suffix|>", "<fim-suffix>",    "<fim_suffix>",
    "<｜fim▁hole｜>", "<SUF>",           "▁<SUF>",         "<|code_suffix|>", "<|fim_middle|>",
    "<fim-middle>",   "<fim_middle>",    "<｜fim▁end｜>",  "<MID>",           "▁<MID>",
    "<|code_middle|>"};

template <size_t N>
bool Contains(const std::string_view (&table)[N], std::string_view text) {
  return std::find(std::begin(table), std::end(table), text) != std::end(table);
}

// Every text of the tables begins so; most pieces of a vocabulary do not.
bool MayBeListed(std::string_view text) {
  return text.size() >= 4 && (text[0] == '<' || text[0] == '[' || text[0] == '_' || text[0] == '\xe2');
}

}  // namespace

std::vector<int32_t> FindEndTokens(TokenizerSpec* spec) {
  std::map<std::string_view, int32_t> ends;
  std::vector<int32_t> ids;
  for (size_t id = 0; id < spec->pieces.size(); ++id) {
    const std::string_view text = spec->pieces[id];
    if (!MayBeListed(text)) continue;
    const bool is_end = Contains(kEnds, text);
    if (is_end) ends.emplace(text, static_cast<int32_t>(id));
    if (is_end || Contains(kMarks, text)) spec->types[id] = TokenType::kControl;
  }
  const auto has = [&](std::string_view text) { return ends.contains(text); };
  const bool has_call = has("<|call|>") || has("<|calls|>");
  // In these two families "<|end|>" ends one message of several.
  if (has("<|end|>") && has_call && (has("<|return|>") || has("<|flush|>"))) {
    spec->types[static_cast<size_t>(ends["<|end|>"])] = TokenType::kUserDefined;
    ends.erase("<|end|>");
  }
  // Gemma 4 has "</s>" as mark-up.
  if (has("<|tool_response>") && has("</s>")) {
    spec->types[static_cast<size_t>(ends["</s>"])] = TokenType::kNormal;
    ends.erase("</s>");
  }
  for (const auto& [text, id] : ends) ids.push_back(id);
  for (const int32_t id : {spec->eos, spec->eot}) {
    if (id >= 0) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace holdfast
