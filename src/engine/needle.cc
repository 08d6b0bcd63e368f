// A number hidden in a long text and asked for at its end, after Mohtashami & Jaggi 2023 (arXiv:2305.16300).
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/status_macros.h"
#include "engine/distribution.h"
#include "holdfast/eval.h"
#include "simd/isa.h"

namespace holdfast {
namespace {

// Every part starts a line, so that tokenising the parts apart changes nothing that matters.
constexpr std::string_view kIntroduction =
    "There is an important fact hidden in the text below. Find it and remember it.\n";
constexpr std::string_view kFiller =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n";
constexpr std::string_view kQuestion = "\nWhat is the pass key? The pass key is";

std::string Needle(const std::string& key) {
  return "\nThe pass key is " + key + ". Remember it. " + key + " is the pass key.\n";
}

// Five digits, another number for each index (the finaliser of SplitMix64).
std::string KeyOf(size_t index) {
  uint64_t z = (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return std::to_string(10000 + z % 90000);
}

using Tokens = std::vector<int32_t>;

struct NeedlePrompt {
  std::string key;
  Tokens tokens;              // ends with the key's own tokens
  int64_t answer_tokens = 0;  // how many those are
};

class PromptBuilder {
 public:
  static Result<PromptBuilder> Create(const Engine& engine, const NeedleOptions& options) {
    PromptBuilder builder(engine, options.context_tokens);
    HF_ASSIGN_OR_RETURN(builder.filler_,
                        builder.Encode(options.filler.empty() ? std::string(kFiller) : options.filler));
    if (builder.filler_.empty())
      return InvalidArgument("needle: the filler text has 0 tokens, must have at least 1");
    HF_ASSIGN_OR_RETURN(builder.introduction_, builder.Encode(std::string(kIntroduction)));
    if (engine.adds_bos()) builder.introduction_.insert(builder.introduction_.begin(), engine.bos_token());
    HF_ASSIGN_OR_RETURN(builder.question_, builder.Encode(std::string(kQuestion)));
    return builder;
  }

  Result<NeedlePrompt> Build(size_t index, double depth) const {
    NeedlePrompt prompt;
    prompt.key = KeyOf(index);
    HF_ASSIGN_OR_RETURN(const Tokens needle, Encode(Needle(prompt.key)));
    HF_ASSIGN_OR_RETURN(const Tokens answered, Encode(std::string(kQuestion) + " " + prompt.key));
    // What the question's own tokens do not cover is the answer.
    const auto shared =
        std::mismatch(answered.begin(), answered.end(), question_.begin(), question_.end()).first;
    prompt.answer_tokens = answered.end() - shared;
    const auto fixed = static_cast<int64_t>(introduction_.size() + needle.size() + answered.size());
    const int64_t room = context_tokens_ - fixed;
    if (room < 1) {
      return InvalidArgument("needle: context_tokens is " + std::to_string(context_tokens_) +
                             ", key and question take " + std::to_string(fixed) +
                             " and need some text around them");
    }
    HF_ASSIGN_OR_RETURN(const int64_t cut,
                        SentenceEnd(std::llround(depth * static_cast<double>(room)), room));
    prompt.tokens = introduction_;
    AppendFiller(prompt.tokens, 0, cut);
    prompt.tokens.insert(prompt.tokens.end(), needle.begin(), needle.end());
    AppendFiller(prompt.tokens, cut, room);
    prompt.tokens.insert(prompt.tokens.end(), answered.begin(), answered.end());
    return prompt;
  }

 private:
  PromptBuilder(const Engine& engine, int64_t context_tokens)
      : engine_(engine), context_tokens_(context_tokens) {}

  Result<Tokens> Encode(const std::string& text) const {
    return engine_.Tokenize(text, {.add_special = false, .parse_special = false});
  }
  int32_t FillerAt(int64_t i) const {
    return filler_[static_cast<size_t>(i % static_cast<int64_t>(filler_.size()))];
  }
  void AppendFiller(Tokens& tokens, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) tokens.push_back(FillerAt(i));
  }
  // The nearest end of a sentence at or before `cut`, where there is one within a hundred tokens.
  Result<int64_t> SentenceEnd(int64_t cut, int64_t room) const {
    if (cut == room) return cut;
    for (int64_t i = cut; i > 0 && cut - i < 100; --i) {
      HF_ASSIGN_OR_RETURN(const std::string piece, engine_.TokenPiece(FillerAt(i - 1)));
      if (piece.ends_with('.') || piece.ends_with('\n')) return i;
    }
    return cut;
  }

  const Engine& engine_;
  int64_t context_tokens_;
  Tokens filler_, introduction_, question_;
};

Status CheckOptions(const NeedleOptions& options) {
  if (options.batch_tokens < 1) {
    return InvalidArgument("needle: batch_tokens is " + std::to_string(options.batch_tokens) +
                           ", must be >= 1");
  }
  for (const double depth : options.depths) {
    if (depth >= 0.0 && depth <= 1.0) continue;
    return InvalidArgument("needle: depth is " + std::to_string(depth) + ", must be in [0, 1]");
  }
  return OkStatus();
}

// Teacher-forced: where every token of the key is the most likely one after those before it, greedy decoding
// yields the key.
Status Ask(Engine& engine, const NeedlePrompt& prompt, const CacheOptions& scheme, int batch_tokens,
           NeedleCell& cell) {
  const DivergenceKernels& kernels = HOLDFAST_SELECT_KERNELS(ActiveIsa(), kDivergenceKernels);
  const int64_t vocab = engine.info().vocab_size;
  const auto fed = std::span<const int32_t>(prompt.tokens).first(prompt.tokens.size() - 1);
  LogitsOptions how;
  how.batch_tokens = batch_tokens;
  how.last_n = prompt.answer_tokens;
  cell.found = true;
  cell.nll = 0.0;
  return engine.Logits(fed, scheme, how, [&](int64_t position, int64_t count, const float* logits) {
    for (int64_t i = 0; i < count; ++i) {
      const Distribution next = MakeDistribution(kernels, logits + i * vocab, vocab);
      const int32_t right = prompt.tokens[static_cast<size_t>(position + i + 1)];
      cell.found = cell.found && next.most_likely == right;
      cell.nll += next.Surprise(right);
    }
  });
}

}  // namespace

Result<std::vector<NeedleCell>> FindNeedles(Engine& engine, std::span<const CacheOptions> schemes,
                                            const NeedleOptions& options) {
  HF_RETURN_IF_ERROR(CheckOptions(options));
  HF_ASSIGN_OR_RETURN(const PromptBuilder builder, PromptBuilder::Create(engine, options));
  std::vector<NeedleCell> cells;
  const auto total = static_cast<int64_t>(options.depths.size() * schemes.size()) * options.context_tokens;
  for (size_t d = 0; d < options.depths.size(); ++d) {
    HF_ASSIGN_OR_RETURN(const NeedlePrompt prompt, builder.Build(d, options.depths[d]));
    for (size_t s = 0; s < schemes.size(); ++s) {
      NeedleCell cell;
      cell.scheme = static_cast<int64_t>(s);
      cell.depth = options.depths[d];
      cell.context_tokens = static_cast<int64_t>(prompt.tokens.size());
      cell.key = prompt.key;
      HF_RETURN_IF_ERROR(Ask(engine, prompt, schemes[s], options.batch_tokens, cell));
      cells.push_back(std::move(cell));
      if (options.progress)
        options.progress(static_cast<int64_t>(cells.size()) * options.context_tokens, total);
    }
  }
  return cells;
}

}  // namespace holdfast
