#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "tokenizer/utf8.h"

namespace holdfast {
namespace {

// White space is spelled out: PCRE2's \s has U+180E, which Unicode took out in 6.3 and the tokenizers'
// authors never had.
#define HF_WS                                                                                                \
  "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{" \
  "3000}"
constexpr std::string_view kGpt2Words = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" HF_WS
                                        "\\p{L}\\p{N}]+|[" HF_WS "]+(?![^" HF_WS "])|[" HF_WS "]+";
#undef HF_WS
constexpr std::string_view kSingleDigits = "\\p{N}";

struct PreTokenizerEntry {
  std::string_view name;
  std::array<std::string_view, 2> patterns;  // applied in order; empty: none
};
constexpr PreTokenizerEntry kPreTokenizers[] = {
    {"gpt-2", {kGpt2Words, ""}},
    {"smollm", {kSingleDigits, kGpt2Words}},
};

struct CodeDelete {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDelete {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDelete {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, CodeDelete>;
using MatchData = std::unique_ptr<pcre2_match_data, MatchDataDelete>;
using MatchContext = std::unique_ptr<pcre2_match_context, MatchContextDelete>;

PCRE2_SPTR Units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

Result<Code> Compile(std::string_view name, std::string_view pattern, bool to_machine_code) {
  int error = 0;
  PCRE2_SIZE at = 0;
  Code code(pcre2_compile(Units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
  if (!code) {
    return Internal("pre-tokeniser '" + std::string(name) + "': PCRE2 error " + std::to_string(error) +
                    " at offset " + std::to_string(at) + " of its pattern");
  }
  // Where the system forbids it, matching is slower and the same.
  if (to_machine_code) pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

// PCRE2 refuses surrogates; U+FFFD is as long and is, like them, no letter, number or white space.
std::string WithoutSurrogates(std::string_view text) {
  std::string out(text);
  for (size_t i = 0; i + 2 < out.size(); ++i) {
    if (out[i] == '\xed' && static_cast<unsigned char>(out[i + 1]) >= 0xa0) out.replace(i, 3, "\xef\xbf\xbd");
  }
  return out;
}

class PatternPreTokenizer final : public PreTokenizer {
 public:
  PatternPreTokenizer(std::vector<Code> patterns, MatchContext context)
      : patterns_(std::move(patterns)), context_(std::move(context)) {}

  Result<std::vector<size_t>> Split(std::string_view text) const override {
    std::string replaced;
    if (text.find('\xed') != std::string_view::npos) {
      replaced = WithoutSurrogates(text);
      text = replaced;
    }
    const MatchData data(pcre2_match_data_create(1, nullptr));
    if (!data) return ResourceExhausted("cut text into words: no memory for a match");
    std::vector<size_t> words = {text.size()};
    if (text.empty()) words.clear();
    for (const Code& pattern : patterns_) {
      HF_ASSIGN_OR_RETURN(words, Cut(pattern.get(), data.get(), text, words));
    }
    return words;
  }

 private:
  // What a failed match left uncut would have other ids, so it is an error.
  Result<std::vector<size_t>> Cut(const pcre2_code* code, pcre2_match_data* data, std::string_view text,
                                  std::span<const size_t> words) const {
    const size_t text_bytes = text.size();
    std::vector<size_t> result;
    result.reserve(words.size());
    for (const size_t word_bytes : words) {
      const std::string_view word = text.substr(0, word_bytes);
      text.remove_prefix(word_bytes);
      size_t done = 0;
      while (done < word.size()) {
        const int matched =
            pcre2_match(code, Units(word), word.size(), done, PCRE2_NO_UTF_CHECK, data, context_.get());
        if (matched == PCRE2_ERROR_NOMATCH) break;
        if (matched < 0) {
          return ResourceExhausted("cut text into words: PCRE2 error " + std::to_string(matched) +
                                   " at byte " +
                                   std::to_string(text_bytes - text.size() - word.size() + done) + " of " +
                                   std::to_string(text_bytes));
        }
        const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data);
        if (match[1] <= done) break;
        if (match[0] > done) result.push_back(match[0] - done);
        result.push_back(match[1] - match[0]);
        done = match[1];
      }
      if (done < word.size()) result.push_back(word.size() - done);
    }
    return result;
  }

  std::vector<Code> patterns_;
  MatchContext context_;
};

}  // namespace

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::Create(std::string_view name, const MatchLimits& limits) {
  std::string known;
  for (const PreTokenizerEntry& entry : kPreTokenizers) {
    if (entry.name != name) {
      known += (known.empty() ? "" : ", ") + std::string(entry.name);
      continue;
    }
    std::vector<Code> patterns;
    for (const std::string_view pattern : entry.patterns) {
      if (pattern.empty()) continue;
      Result<Code> code = Compile(name, pattern, limits.compile);
      if (!code.ok()) return code.status();
      patterns.push_back(std::move(code).value());
    }
    MatchContext context(pcre2_match_context_create(nullptr));
    if (!context)
      return ResourceExhausted("pre-tokeniser '" + std::string(name) + "': no memory for its match limits");
    pcre2_set_match_limit(context.get(), limits.matches);
    pcre2_set_heap_limit(context.get(), limits.heap_kib);
    return std::unique_ptr<PreTokenizer>(
        std::make_unique<PatternPreTokenizer>(std::move(patterns), std::move(context)));
  }
  return Unimplemented("tokenizer: pre-tokeniser '" + std::string(name) + "' is not known; there are " +
                       known);
}

}  // namespace holdfast
