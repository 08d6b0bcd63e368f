#include "server/openai_request.h"

#include <charconv>
#include <cmath>

#include "holdfast/serving.h"
#include "server/field_reader.h"
#include "server/refused_fields.h"

namespace holdfast::server {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 40;

std::string Indexed(const std::string& name, size_t i) {
  return name + "[" + std::to_string(i) + "]";
}

bool ReadTokens(const Json& json, const std::string& name, FieldReader& fields,
                std::vector<int32_t>* tokens) {
  tokens->reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    if (!IsIntIn(json[i], 0, INT32_MAX)) {
      fields.Fail(Indexed(name, i), ValueText(json[i]) + ", must be a token id");
      return false;
    }
    tokens->push_back(json[i].get<int32_t>());
  }
  return true;
}

void ReadPrompts(FieldReader& fields, std::vector<Prompt>* prompts) {
  const Json* json = fields.Find("prompt");
  if (json == nullptr) return fields.Fail("prompt", "is missing");
  if (json->is_string()) {
    prompts->emplace_back(json->get<std::string>());
    return;
  }
  if (!json->is_array() || json->empty()) {
    return fields.Fail("prompt",
                       ValueText(*json) + (json->is_array() ? " that is empty" : "") +
                           ", must be a string, an array of strings, an array of token ids, or an array of "
                           "arrays of token ids");
  }
  if ((*json)[0].is_number()) {
    std::vector<int32_t> tokens;
    if (ReadTokens(*json, "prompt", fields, &tokens)) prompts->emplace_back(std::move(tokens));
    return;
  }
  if (json->size() > static_cast<size_t>(kMaxChoices)) {
    return fields.Fail("prompt",
                       std::to_string(json->size()) + " prompts, at most " + std::to_string(kMaxChoices));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    const Json& one = (*json)[i];
    if (one.is_string()) {
      prompts->emplace_back(one.get<std::string>());
    } else if (one.is_array() && !one.empty()) {
      std::vector<int32_t> tokens;
      if (!ReadTokens(one, Indexed("prompt", i), fields, &tokens)) return;
      prompts->emplace_back(std::move(tokens));
    } else {
      return fields.Fail(Indexed("prompt", i),
                         ValueText(one) + ", must be a string or an array of token ids");
    }
  }
}

// The text of a message: a string, or parts that are all text.
bool ReadContent(const Json& message, const std::string& path, FieldReader& fields, std::string* text) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    fields.Fail(path + ".content", "is missing");
    return false;
  }
  if (content->is_string()) {
    *text = content->get<std::string>();
    return true;
  }
  if (!content->is_array()) {
    fields.Fail(path + ".content", ValueText(*content) + ", must be a string or an array of text parts");
    return false;
  }
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string part_path = Indexed(path + ".content", i);
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || *type != "text") {
      const bool has_type = part.is_object() && type != part.end();
      fields.Fail(part_path + ".type",
                  (has_type ? ValueText(*type) : "missing") + ", only \"text\" is supported", "unsupported");
      return false;
    }
    const auto part_text = part.find("text");
    if (part_text == part.end() || !part_text->is_string()) {
      fields.Fail(part_path + ".text", "must be a string");
      return false;
    }
    *text += part_text->get_ref<const std::string&>();
  }
  return true;
}

void ReadMessages(FieldReader& fields, std::vector<ChatTurn>* messages) {
  const Json* json = fields.Find("messages");
  if (json == nullptr) return fields.Fail("messages", "is missing");
  if (!json->is_array() || json->empty())
    return fields.Fail("messages", "must be an array of at least one message");
  if (json->size() > kMaxMessages) {
    return fields.Fail("messages",
                       std::to_string(json->size()) + " of them, at most " + std::to_string(kMaxMessages));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    const Json& message = (*json)[i];
    const std::string path = Indexed("messages", i);
    if (!message.is_object()) return fields.Fail(path, ValueText(message) + ", must be an object");
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string()) return fields.Fail(path + ".role", "must be a string");
    ChatTurn turn{role->get<std::string>(), ""};
    if (turn.role == "developer") turn.role = "system";  // OpenAI's newer name of it
    if (turn.role != "system" && turn.role != "user" && turn.role != "assistant") {
      return fields.Fail(path + ".role", ValueText(*role) + ", must be system, developer, user or assistant");
    }
    for (const char* refused : {"tool_calls", "function_call", "audio"}) {
      const auto at = message.find(refused);
      if (at != message.end() && !at->is_null() && !(at->is_array() && at->empty()))
        return fields.Fail(path + "." + refused, "is not supported", "unsupported");
    }
    if (!ReadContent(message, path, fields, &turn.content)) return;
    messages->push_back(std::move(turn));
  }
}

void ReadStop(FieldReader& fields, std::vector<std::string>* stop) {
  const Json* json = fields.Find("stop");
  if (json == nullptr) return;
  const Json list = json->is_array() ? *json : Json::array({*json});
  if (list.size() > kMaxStops) {
    return fields.Fail("stop",
                       std::to_string(list.size()) + " strings, at most " + std::to_string(kMaxStops));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = json->is_array() ? Indexed("stop", i) : "stop";
    if (!list[i].is_string()) return fields.Fail(name, ValueText(list[i]) + ", must be a string");
    const auto& text = list[i].get_ref<const std::string&>();
    if (text.empty()) return fields.Fail(name, "is empty");
    if (text.size() > kMaxStopBytes) {
      return fields.Fail(name,
                         std::to_string(text.size()) + " bytes, at most " + std::to_string(kMaxStopBytes));
    }
    stop->push_back(text);
  }
}

void ReadLogitBias(FieldReader& fields, std::vector<LogitBias>* biases) {
  const Json* json = fields.Find("logit_bias");
  if (json == nullptr) return;
  if (!json->is_object()) return fields.Fail("logit_bias", ValueText(*json) + ", must be an object");
  if (json->size() > static_cast<size_t>(kMaxLogitBiases)) {
    return fields.Fail("logit_bias",
                       std::to_string(json->size()) + " entries, at most " + std::to_string(kMaxLogitBiases));
  }
  for (const auto& [key, value] : json->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    // In one way only: two keys may not be one token.
    if (error != std::errc() || token < 0 || key != std::to_string(token))
      return fields.Fail("logit_bias", "a key is " + ValueText(Json(key)) + ", must be a token id");
    const double bias = value.is_number() ? value.get<double>() : std::nan("");
    if (!(bias >= -100.0 && bias <= 100.0))
      return fields.Fail("logit_bias." + key, ValueText(value) + ", must be a number in [-100, 100]");
    biases->push_back({token, static_cast<float>(bias)});
  }
}

void ReadSampling(FieldReader& fields, GenerationRequest* request) {
  SamplingOptions& sampling = request->generate.sampling;
  double temperature = 1.0, top_p = 1.0, min_p = 0.0, repeat = 1.0, presence = 0.0, frequency = 0.0;
  int64_t top_k = 0, seed = 0;
  fields.Number("temperature", 0.0, 2.0, &temperature);
  fields.Number("top_p", 0.0, 1.0, &top_p);
  fields.Number("min_p", 0.0, 1.0, &min_p);
  fields.Int("top_k", -1, INT32_MAX, &top_k);
  fields.Number("repeat_penalty", 0.01, 100.0, &repeat);      // llama.cpp's name
  fields.Number("repetition_penalty", 0.01, 100.0, &repeat);  // vLLM's
  fields.Number("presence_penalty", -2.0, 2.0, &presence);
  fields.Number("frequency_penalty", -2.0, 2.0, &frequency);
  ReadLogitBias(fields, &sampling.logit_bias);
  request->has_seed = fields.Find("seed") != nullptr;
  fields.Int("seed", INT64_MIN, INT64_MAX, &seed);
  sampling.temperature = static_cast<float>(temperature);
  // The fewest tokens that reach no probability at all are one token.
  sampling.top_p = std::max(static_cast<float>(top_p), 1e-9f);
  sampling.min_p = static_cast<float>(min_p);
  sampling.top_k = static_cast<int>(std::max<int64_t>(top_k, 0));  // -1: off, as vLLM
  sampling.repeat_penalty = static_cast<float>(repeat);
  sampling.presence_penalty = static_cast<float>(presence);
  sampling.frequency_penalty = static_cast<float>(frequency);
  sampling.seed = static_cast<uint64_t>(seed);
}

// What completions and chat have in common.
void ReadShared(FieldReader& fields, GenerationRequest* request) {
  std::string ignored;
  fields.Text("model", &ignored);  // one model is served; its name is in the answer
  int64_t n = 1;
  fields.Int("n", 1, kMaxChoicesPerPrompt, &n);
  request->n = static_cast<int>(n);
  fields.Bool("stream", &request->stream);
  fields.Bool("ignore_eos", &request->generate.ignore_eos);
  ReadSampling(fields, request);
  ReadStop(fields, &request->generate.stop);
  if (const Json* options = fields.Find("stream_options"); options != nullptr) {
    if (!options->is_object()) {
      fields.Fail("stream_options", ValueText(*options) + ", must be an object");
    } else if (!request->stream) {
      fields.Fail("stream_options", "is for a request with stream = true only");
    } else {
      FieldReader inner(*options, "stream_options.");
      inner.Bool("include_usage", &request->include_usage);
      if (inner.error().has_value()) fields.Fail(*inner.error());
    }
  }
  RefuseFields(fields);
}

std::optional<ApiError> CheckIsObject(const Json& body) {
  if (body.is_object()) return std::nullopt;
  return ApiError{400, "request body: " + ValueText(body) + ", must be a JSON object", "", ""};
}

}  // namespace

std::variant<GenerationRequest, ApiError> ParseCompletion(const Json& body) {
  if (auto error = CheckIsObject(body)) return *error;
  GenerationRequest request;
  FieldReader fields(body);
  ReadPrompts(fields, &request.prompts);
  ReadShared(fields, &request);
  request.generate.max_tokens = 16;
  fields.Bool("echo", &request.echo);
  // 0: nothing but the prompt's log probabilities is wanted, or that its rows are there for what comes next.
  fields.Int("max_tokens", 0, kMaxTokens, &request.generate.max_tokens);
  int64_t logprobs = -1;
  fields.Int("logprobs", 0, kMaxTopLogprobs, &logprobs);
  request.top_logprobs = static_cast<int>(logprobs);
  int64_t best_of = request.n;
  fields.Int("best_of", 1, kMaxChoicesPerPrompt, &best_of);
  if (best_of != request.n)
    fields.Fail("best_of",
                std::to_string(best_of) + ", only n (" + std::to_string(request.n) + ") is supported",
                "unsupported");
  const auto choices = static_cast<int64_t>(request.prompts.size()) * request.n;
  if (choices > kMaxChoices) {
    fields.Fail("n", std::to_string(request.n) + " for each of " + std::to_string(request.prompts.size()) +
                         " prompts, at most " + std::to_string(kMaxChoices) + " choices");
  }
  if (fields.error().has_value()) return *fields.error();
  return request;
}

std::variant<GenerationRequest, ApiError> ParseChat(const Json& body) {
  if (auto error = CheckIsObject(body)) return *error;
  GenerationRequest request;
  request.is_chat = true;
  FieldReader fields(body);
  ReadMessages(fields, &request.messages);
  ReadShared(fields, &request);
  fields.Int("max_tokens", 1, kMaxTokens, &request.generate.max_tokens);
  fields.Int("max_completion_tokens", 1, kMaxTokens, &request.generate.max_tokens);
  bool logprobs = false;
  int64_t top = 0;
  fields.Bool("logprobs", &logprobs);
  fields.Int("top_logprobs", 0, kMaxTopLogprobs, &top);
  if (!logprobs && fields.Find("top_logprobs") != nullptr)
    fields.Fail("top_logprobs", "needs logprobs = true");
  request.top_logprobs = logprobs ? static_cast<int>(top) : -1;
  if (fields.error().has_value()) return *fields.error();
  return request;
}

std::variant<TokenizeRequest, ApiError> ParseTokenize(const Json& body) {
  if (auto error = CheckIsObject(body)) return *error;
  TokenizeRequest request;
  FieldReader fields(body);
  request.options.parse_special = true;
  if (fields.Find("messages") != nullptr) {
    ReadMessages(fields, &request.messages);
  } else if (fields.Find("prompt") != nullptr) {
    request.options.add_special = true;
    fields.Text("prompt", &request.text);
  } else if (fields.Find("content") != nullptr) {
    request.options.add_special = false;
    fields.Text("content", &request.text);
  } else {
    fields.Fail("content", "is missing");
  }
  fields.Bool("add_special", &request.options.add_special);
  fields.Bool("add_special_tokens", &request.options.add_special);
  fields.Bool("parse_special", &request.options.parse_special);
  fields.Bool("with_pieces", &request.with_pieces);
  if (fields.error().has_value()) return *fields.error();
  return request;
}

std::variant<std::vector<int32_t>, ApiError> ParseDetokenize(const Json& body) {
  if (auto error = CheckIsObject(body)) return *error;
  FieldReader fields(body);
  std::vector<int32_t> tokens;
  const Json* json = fields.Find("tokens");
  if (json == nullptr || !json->is_array()) {
    fields.Fail("tokens", "must be an array of token ids");
  } else {
    ReadTokens(*json, "tokens", fields, &tokens);
  }
  if (fields.error().has_value()) return *fields.error();
  return tokens;
}

}  // namespace holdfast::server
