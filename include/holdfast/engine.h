// A model that generates text: load it, open sessions, iterate over tokens.
//
//   auto engine = holdfast::Engine::Load("smollm2", {}).value();
//   auto session = engine->NewSession({}).value();
//   auto prompt = engine->Tokenize("Once upon a time", {}).value();
//   session->Start(prompt, {.max_tokens = 64});
//   while (!session->finished()) std::fputs(session->Step().value().text.c_str(), stdout);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/cache_config.h"
#include "holdfast/status.h"

namespace holdfast {

struct EngineOptions {
  int threads = 0;     // 0: one a core
  bool exact = false;  // weights dequantised to f32, products in f32: slow, for measuring
  std::function<void(int64_t done_bytes, int64_t total_bytes)> load_progress;
};

// Which sides (K or V of a layer) are rotated before their codec sees them (docs/formats/transform.md). kAuto: those
// whose codec has fewer than 8 bits. kOn: those with an integer codec. kOff: none; refused where a codec (aura) needs it.
enum class KvRotate : uint8_t { kAuto, kOn, kOff };
std::string_view KvRotateName(KvRotate rotate);  // "auto", "on", "off"
Result<KvRotate> ParseKvRotate(std::string_view name);

// Layers [first, last] and their codecs.
struct LayerScheme {
  int first = 0, last = 0;
  KvSpec codecs;
  friend bool operator==(const LayerScheme&, const LayerScheme&) = default;
};

// As `--kv-layers` takes them: `0-1=f16,2-29=aura4v2,7=f16:int8`.
std::string LayerSchemesName(const std::vector<LayerScheme>& schemes);
Result<std::vector<LayerScheme>> ParseLayerSchemes(std::string_view text);

// How a session's cache is built. Defaults: the model's own windows, f16, contiguous.
struct CacheOptions {
  CodecSpec k_codec;
  CodecSpec v_codec;
  StorageId storage = StorageId::kContiguous;
  int block_tokens = kDefaultBlockTokens;
  int rewind_tokens = kDefaultRewindTokens;
  int64_t max_context = 0;          // 0: the model's context length
  int64_t window_tokens = 0;        // > 0: layers that are `full` become windows of this size (StreamingLLM)
  int64_t sink_tokens = 0;          // positions that such windows keep
  std::vector<LayerScheme> layers;  // other codecs for some layers; a later entry counts
  int protect_layers = 0;           // the first and the last so many stay f16 whatever the rest says
  ProtectionConfig protection;      // of layers that an integer codec encodes
  // Keep the rows of the first prompt in f16 until it is through, then encode them all before the first token is
  // decoded. Faster and nearer to f16, but what a token sees then depends on where the prompt ended: the same tokens
  // given in two calls do not have the same bits, nor can such rows be shared.
  bool two_phase = false;
  float sparse_v = 0.0f;     // of every layer, see LayerConfig
  int64_t sparse_pages = 0;  // of every layer whose layout is full, see LayerConfig
  KvRotate rotate = KvRotate::kAuto;
  // Whether sides with an integer codec are centred by the model's calibration: center_file, or, where that is
  // empty, DefaultCenterPath of the model if such a file is there (holdfast/calibrate.h).
  bool center = true;
  std::string center_file;
};

// Whether any layer has an integer codec by these options, as far as they alone tell.
bool HasIntegerCodec(const CacheOptions& options);
// Where none has: the same without rotation and a file of centres, which would be refused: there is nothing to transform.
CacheOptions WithoutIdleTransforms(CacheOptions options);

// Added to a token's logit: -100 bans it, 100 makes it the only choice.
struct LogitBias {
  int32_t token = 0;  // of the vocabulary
  float bias = 0.0f;  // in [-100, 100]
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};
inline constexpr int kMaxLogitBiases = 1024;

// As llama.cpp's options of the same names, applied in its order: biases, repetition penalty, presence and frequency
// penalty, top-k, top-p, min-p, temperature.
struct SamplingOptions {
  float temperature = 0.8f;     // 0: greedy (the first of equal logits)
  int top_k = 40;               // 0: off
  float top_p = 0.95f;          // 1: off
  float min_p = 0.05f;          // 0: off
  float repeat_penalty = 1.0f;  // 1: off
  int repeat_last_n = 64;       // tokens the penalty looks at; -1: all
  // OpenAI's: taken off the logit of every token of the answer so far, once, and once each time that it occurs.
  float presence_penalty = 0.0f;      // in [-2, 2]
  float frequency_penalty = 0.0f;     // in [-2, 2]
  std::vector<LogitBias> logit_bias;  // at most kMaxLogitBiases; those of one token add up
  uint64_t seed = 0;                  // same seed, same text
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = -1;  // -1: until an end token, a stop string or the context's end
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int prefill_chunk_tokens = 512;
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kContext, kCancelled };
std::string_view FinishReasonName(FinishReason reason);  // "stop", "length", "context", "cancelled"

struct TokenEvent {
  int32_t token = -1;  // -1: a prefill chunk, no token yet
  std::string text;    // text that became complete; never half a character, never part of a stop string
  FinishReason finish = FinishReason::kNone;
  int64_t prefilled_tokens = 0, prompt_tokens = 0;  // progress
};

struct GenerationStats {
  int64_t prompt_tokens = 0, reused_tokens = 0, completion_tokens = 0;
  int64_t prefill_ns = 0, decode_ns = 0;
  int64_t live_bytes = 0, allocated_bytes = 0, planned_bytes = 0, bytes_per_token = 0;
};

// One sequence and its cache. A session goes on over turns: Start reuses the longest common prefix of its
// cache and the new tokens where the cache can rewind that far, and re-evaluates everything where it cannot.
// Not thread-safe; sessions of one engine are stepped by one thread. The engine must outlive them. A step
// that fails leaves tokens and text as they were.
class Session {
 public:
  virtual ~Session() = default;

  // Begins a generation whose whole context is `tokens` (earlier turns included). Errors: kInvalidArgument
  // (no tokens, bad option, named with its limit), kOutOfRange (a token outside the vocabulary; more tokens
  // than max_context), before any work; the session is then as it was.
  virtual Status Start(std::span<const int32_t> tokens, const GenerateOptions& options) = 0;
  // One step: a prefill chunk (token = -1) or one token. Error kFailedPrecondition once finished.
  virtual Result<TokenEvent> Step() = 0;
  virtual bool finished() const = 0;
  // Safe from another thread or a signal handler: the next Step finishes with kCancelled.
  virtual void Cancel() = 0;

  virtual const std::vector<int32_t>& tokens() const = 0;  // prompt and completion
  virtual std::span<const int32_t> completion() const = 0;
  virtual GenerationStats stats() const = 0;
  virtual const CacheConfig& cache_config() const = 0;
  virtual int64_t cached_tokens() const = 0;
  // Forgets the last n cached tokens and, for n > 0, every token that is not cached yet, such as the last one
  // drawn; a Start says how to go on. 0 changes nothing. Errors as KvSequence::Rewind.
  virtual Status Rewind(int64_t n) = 0;
  // A second session with the same cache and tokens.
  virtual Result<std::unique_ptr<Session>> Fork() const = 0;
};

struct TokenizeOptions {
  bool add_special = true;     // the model's own BOS/EOS rule
  bool parse_special = false;  // read special tokens' text as those tokens
};

struct ChatTurn {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct ChatOptions {
  // Where the turns bring no system message: the one that the model's own chat template writes then, if it
  // writes any. false: no system message at all.
  bool default_system = true;
};

struct LayerInfo {
  LayerConfig cache;  // as a session with these options would build it
  int q_heads = 0;
  double rope_base = 0.0;
};

struct ModelInfo {
  std::string architecture, name, path;
  int64_t vocab_size = 0, hidden_dim = 0, ffn_dim = 0, context_length = 0, weight_bytes = 0;
  int layers = 0, q_heads = 0, kv_heads = 0, head_dim = 0;
  bool has_tokenizer = false, has_chat_format = false;
  std::string tokenizer_missing;  // why there is none
};

struct LayerTraceRow {
  int layer = 0;  // -1: embeddings
  int64_t tokens = 0, dim = 0;
  float min = 0, max = 0;
  double mean = 0;
  int64_t nans = 0, infs = 0;
};

struct LogitsOptions {
  int batch_tokens = 512;  // prefill chunk; 1: token by token
  int64_t last_n = 0;      // 0: every position
  std::function<void(const LayerTraceRow&)> trace;
};

class Engine {
 public:
  // model: a GGUF file, a Hugging Face folder, or a short name of the model store that is already fetched.
  // Errors name the file, field, value and limit; kInvalidArgument too where HOLDFAST_FORCE_ISA names an
  // instruction set that does not exist or that this processor lacks.
  static Result<std::unique_ptr<Engine>> Load(const std::string& model, const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const ModelInfo& info() const = 0;
  virtual Result<CacheConfig> MakeCacheConfig(const CacheOptions& options) const = 0;
  virtual std::vector<LayerInfo> Layers(const CacheConfig& config) const = 0;

  virtual Result<std::unique_ptr<Session>> NewSession(const CacheOptions& options) = 0;
  // Steps several sessions in one forward pass: each gets what its own Step would give, bit for bit.
  // events[i] belongs to sessions[i]; finished ones are an error. On error no session has gone on, except
  // that cancelled ones have finished.
  virtual Result<std::vector<TokenEvent>> StepTogether(std::span<Session* const> sessions) = 0;

  // Errors: kUnimplemented where the model came without a supported tokenizer (names why).
  virtual Result<std::vector<int32_t>> Tokenize(std::string_view text,
                                                const TokenizeOptions& options) const = 0;
  virtual Result<std::string> Detokenize(std::span<const int32_t> tokens) const = 0;
  virtual Result<std::string> TokenPiece(int32_t token) const = 0;
  virtual bool IsEndToken(int32_t token) const = 0;
  virtual int32_t bos_token() const = 0;  // -1: none
  virtual bool adds_bos() const = 0;
  // The conversation as tokens, ending where the assistant is to speak.
  virtual Result<std::vector<int32_t>> TokenizeChat(std::span<const ChatTurn> turns,
                                                    const ChatOptions& options) const = 0;

  // f32 logits [positions, vocab_size] of `tokens` on an empty cache, handed over a batch at a time in
  // ascending position: sink(first_position, count, logits).
  virtual Status Logits(std::span<const int32_t> tokens, const CacheOptions& cache,
                        const LogitsOptions& options,
                        const std::function<void(int64_t, int64_t, const float*)>& sink) = 0;
};

}  // namespace holdfast
