#include "models/gguf_tokenizer.h"

#include <fmt/format.h>

#include <tuple>

#include "base/status_macros.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr int64_t kMaxVocabulary = 1 << 22;

std::string Key(std::string_view suffix) {
  return fmt::format("{}{}", kPrefix, suffix);
}

std::string Where(const GgufFile& file, std::string_view what) {
  return fmt::format("read tokenizer of {}: {}", Quoted(file.path()), what);
}

Result<bool> BoolOr(const GgufFile& file, std::string_view suffix, bool fallback) {
  const std::string key = Key(suffix);
  return file.Has(key) ? file.Bool(key) : Result<bool>(fallback);
}

// A token id, or `fallback` where the file does not say. Only an id that the file itself names must be in the
// vocabulary.
Result<int32_t> IdOr(const GgufFile& file, std::string_view suffix, size_t vocabulary, int32_t fallback) {
  const std::string key = Key(suffix);
  if (!file.Has(key)) return fallback < static_cast<int64_t>(vocabulary) ? fallback : -1;
  HF_ASSIGN_OR_RETURN(const int64_t id, file.Int(key));
  constexpr int64_t kNone = 0xffffffff;  // how some converters write "no such token"
  if (id == -1 || id == kNone) return -1;
  if (id < 0 || id >= static_cast<int64_t>(vocabulary)) {
    return OutOfRange(
        Where(file, fmt::format("key {} is {}, the vocabulary has {} tokens", Quoted(key), id, vocabulary)));
  }
  return static_cast<int32_t>(id);
}

// Normalisations that no tokenizer here does: refused rather than left out.
Status RefuseNormalisations(const GgufFile& file) {
  if (file.Has(Key("precompiled_charsmap"))) {
    return Unimplemented(Where(file, "key \"tokenizer.ggml.precompiled_charsmap\" is not supported"));
  }
  HF_ASSIGN_OR_RETURN(const bool strip, BoolOr(file, "remove_extra_whitespaces", false));
  if (strip) {
    return Unimplemented(
        Where(file, "key \"tokenizer.ggml.remove_extra_whitespaces\" is true, supported is false"));
  }
  HF_ASSIGN_OR_RETURN(const bool escape, BoolOr(file, "escape_whitespaces", true));
  if (!escape) {
    return Unimplemented(
        Where(file, "key \"tokenizer.ggml.escape_whitespaces\" is false, supported is true"));
  }
  return OkStatus();
}

Status CheckLength(const GgufFile& file, std::string_view suffix, size_t found, size_t vocabulary) {
  if (found == vocabulary) return OkStatus();
  return DataLoss(Where(file, fmt::format("key {} has {} values, there are {} tokens", Quoted(Key(suffix)),
                                          found, vocabulary)));
}

Status ReadTypes(const GgufFile& file, TokenizerSpec& spec) {
  if (!file.Has(Key("token_type"))) {
    spec.types.assign(spec.pieces.size(), TokenType::kNormal);
    return OkStatus();
  }
  HF_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file.Ints(Key("token_type")));
  HF_RETURN_IF_ERROR(CheckLength(file, "token_type", types.size(), spec.pieces.size()));
  spec.types.reserve(types.size());
  for (size_t id = 0; id < types.size(); ++id) {
    constexpr auto kLast = static_cast<int64_t>(TokenType::kByte);
    if (types[id] < 0 || types[id] > kLast) {
      return OutOfRange(
          Where(file, fmt::format("type of token {} is {}, the limits are 0 and {}", id, types[id], kLast)));
    }
    spec.types.push_back(static_cast<TokenType>(types[id]));
  }
  return OkStatus();
}

Status ReadVocabulary(const GgufFile& file, TokenizerSpec& spec) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string_view> pieces, file.Strings(Key("tokens")));
  if (pieces.empty() || pieces.size() > static_cast<size_t>(kMaxVocabulary)) {
    return OutOfRange(Where(file, fmt::format("vocabulary has {} tokens, the limits are 1 and {}",
                                              pieces.size(), kMaxVocabulary)));
  }
  spec.pieces.assign(pieces.begin(), pieces.end());
  return ReadTypes(file, spec);
}

Status ReadByteLevel(const GgufFile& file, TokenizerSpec& spec) {
  spec.kind = TokenizerSpec::Kind::kByteLevelBpe;
  spec.pre = "default";
  if (file.Has(Key("pre"))) {
    HF_ASSIGN_OR_RETURN(const std::string_view pre, file.String(Key("pre")));
    spec.pre = pre;
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.Strings(Key("merges")));
  spec.merges.assign(merges.begin(), merges.end());
  return OkStatus();
}

Status ReadSentencePiece(const GgufFile& file, TokenizerSpec& spec) {
  spec.kind = TokenizerSpec::Kind::kSentencePieceBpe;
  HF_ASSIGN_OR_RETURN(spec.scores, file.Floats(Key("scores")));
  return CheckLength(file, "scores", spec.scores.size(), spec.pieces.size());
}

// Where the file does not say, what llama.cpp assumes of this kind of tokenizer.
Status ReadSpecialTokens(const GgufFile& file, TokenizerSpec& spec) {
  const bool is_sentence_piece = spec.kind == TokenizerSpec::Kind::kSentencePieceBpe;
  const size_t n = spec.pieces.size();
  HF_ASSIGN_OR_RETURN(spec.bos, IdOr(file, "bos_token_id", n, is_sentence_piece ? 1 : -1));
  HF_ASSIGN_OR_RETURN(spec.eos, IdOr(file, "eos_token_id", n, is_sentence_piece ? 2 : -1));
  HF_ASSIGN_OR_RETURN(spec.unk, IdOr(file, "unknown_token_id", n, is_sentence_piece ? 0 : -1));
  HF_ASSIGN_OR_RETURN(spec.eot, IdOr(file, "eot_token_id", n, -1));
  HF_ASSIGN_OR_RETURN(spec.add_bos, BoolOr(file, "add_bos_token", is_sentence_piece));
  HF_ASSIGN_OR_RETURN(spec.add_eos, BoolOr(file, "add_eos_token", false));
  HF_ASSIGN_OR_RETURN(spec.add_space_prefix, BoolOr(file, "add_space_prefix", is_sentence_piece));
  for (const auto& [wanted, id, name] : {std::tuple(spec.add_bos, spec.bos, "add_bos_token"),
                                         std::tuple(spec.add_eos, spec.eos, "add_eos_token")}) {
    if (wanted && id < 0) {
      return InvalidArgument(
          Where(file, fmt::format("key {} is true, the file names no such token", Quoted(Key(name)))));
    }
  }
  return OkStatus();
}

}  // namespace

Result<TokenizerSpec> ReadTokenizerSpec(const GgufFile& file) {
  const std::string model_key = Key("model");
  if (!file.Has(model_key)) return NotFound(Where(file, fmt::format("key {} is missing", Quoted(model_key))));
  HF_ASSIGN_OR_RETURN(const std::string_view model, file.String(model_key));
  if (model != "gpt2" && model != "llama") {
    return Unimplemented(Where(
        file, fmt::format("key {} is {}, supported are gpt2 and llama", Quoted(model_key), Quoted(model))));
  }
  HF_RETURN_IF_ERROR(RefuseNormalisations(file));
  TokenizerSpec spec;
  HF_RETURN_IF_ERROR(ReadVocabulary(file, spec));
  HF_RETURN_IF_ERROR(model == "gpt2" ? ReadByteLevel(file, spec) : ReadSentencePiece(file, spec));
  HF_RETURN_IF_ERROR(ReadSpecialTokens(file, spec));
  return spec;
}

Result<std::string> ReadChatTemplate(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (!file.Has(kKey)) return std::string();
  HF_ASSIGN_OR_RETURN(const std::string_view text, file.String(kKey));
  return std::string(text);
}

}  // namespace holdfast
