#include "server/load_prompts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace holdfast::load {
namespace {

// Every one of these with a space before it is one token of SmolLM2's and of Gemma 3's vocabulary, and very likely of any
// other that knows English.
constexpr std::string_view kWords =
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government number "
    "night point home water room mother area money story fact month lot right study book eye job word "
    "business issue side kind head house service friend father power hour game line end member law car "
    "city community name president team minute idea kid body information back parent face others level "
    "office door health person art war history party result change morning reason research girl guy "
    "moment air teacher force education foot boy age policy music market sense nation plan college "
    "interest death experience effect use class control field development role effort rate heart drug "
    "show leader light voice wife police mind price report decision son view relationship town road arm "
    "difference value building action season society tax director position player record paper space "
    "ground form event official matter center couple site project activity star table need court oil "
    "situation cost industry figure street image phone data picture practice piece land product doctor "
    "wall patient worker news test movie north love support technology step baby computer type "
    "attention film tree source truth theory network window machine river mountain garden animal summer "
    "winter spring color paint letter page author reader speech language culture tradition museum "
    "island ocean beach forest bird fish horse dog cat food bread milk fruit sugar salt coffee tea "
    "glass bottle kitchen dinner lunch breakfast train plane ship boat bridge station airport hotel "
    "moon garage ";
constexpr size_t kWordCount = 256;

std::array<std::string_view, kWordCount> SplitWords() {
  std::array<std::string_view, kWordCount> words;
  size_t at = 0;
  for (std::string_view& word : words) {
    const size_t end = kWords.find(' ', at);
    word = kWords.substr(at, end - at);
    at = end + 1;
  }
  return words;
}

// SplitMix64 (Steele, Lea, Flood 2014), the same on every machine.
uint64_t NextRandom(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t StreamOf(uint64_t seed, PromptStream stream, uint64_t number) {
  uint64_t state = seed;
  state = NextRandom(state) ^ static_cast<uint64_t>(stream);
  state = NextRandom(state) ^ number;
  return NextRandom(state);
}

}  // namespace

void AppendWords(std::string& text, uint64_t seed, PromptStream stream, uint64_t number, int64_t count) {
  static const std::array<std::string_view, kWordCount> words = SplitWords();
  uint64_t state = StreamOf(seed, stream, number);
  for (int64_t i = 0; i < count; ++i) {
    if (!text.empty()) text += ' ';
    text += words[NextRandom(state) % kWordCount];
  }
}

std::string CalibrationText(int64_t words) {
  std::string text;
  AppendWords(text, 0, PromptStream::kCalibration, 0, words);
  return text;
}

int64_t PromptMaker::Words(int64_t tokens) const {
  return std::max<int64_t>(1, std::llround(static_cast<double>(tokens) / tokens_per_word_));
}

std::string PromptMaker::Prompt(int64_t index, int64_t tokens, int64_t shared_tokens) const {
  const int64_t words = Words(tokens);
  const int64_t shared = shared_tokens == 0 ? 0 : std::min(words, Words(shared_tokens));
  std::string text;
  AppendWords(text, seed_, PromptStream::kShared, 0, shared);
  AppendWords(text, seed_, PromptStream::kOwn, static_cast<uint64_t>(index), words - shared);
  return text;
}

std::string PromptMaker::Prompt(const TraceRequest& request, int64_t max_tokens) const {
  int64_t left = max_tokens > 0 ? std::min(request.input_tokens, max_tokens) : request.input_tokens;
  std::string text;
  for (const int64_t id : request.hash_ids) {
    if (left <= 0) break;
    AppendWords(text, seed_, PromptStream::kBlock, static_cast<uint64_t>(id),
                Words(std::min(left, kTraceBlockTokens)));
    left -= kTraceBlockTokens;
  }
  return text;
}

std::vector<int64_t> PoissonArrivals(uint64_t seed, int64_t requests, double rate_per_s) {
  uint64_t state = StreamOf(seed, PromptStream::kArrivals, 0);
  std::vector<int64_t> arrivals;
  double at_s = 0.0;
  for (int64_t i = 0; i < requests; ++i) {
    arrivals.push_back(std::llround(at_s * 1e9));
    const double uniform = static_cast<double>(NextRandom(state) >> 11) * 0x1p-53;  // [0, 1)
    at_s -= std::log1p(-uniform) / rate_per_s;
  }
  return arrivals;
}

}  // namespace holdfast::load
