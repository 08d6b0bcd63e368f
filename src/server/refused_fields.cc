#include "server/refused_fields.h"

namespace holdfast::server {
namespace {

// A field, and the value, as JSON text, that asks for nothing (besides null, and an empty array or object).
struct Refused {
  const char* name;
  const char* harmless;
};

constexpr Refused kRefused[] = {
    // OpenAI
    {"tools", "[]"},
    {"tool_choice", "\"none\""},
    {"functions", "[]"},
    {"function_call", "\"none\""},
    {"modalities", "[\"text\"]"},
    {"audio", "null"},
    {"prediction", "null"},
    {"reasoning_effort", "\"none\""},
    {"verbosity", "\"medium\""},
    {"web_search_options", "null"},
    {"suffix", "\"\""},
    // vLLM
    {"guided_json", "null"},
    {"guided_regex", "null"},
    {"guided_choice", "null"},
    {"guided_grammar", "null"},
    {"structured_outputs", "null"},
    {"use_beam_search", "false"},
    {"prompt_logprobs", "null"},
    {"stop_token_ids", "[]"},
    {"bad_words", "[]"},
    {"min_tokens", "0"},
    {"truncate_prompt_tokens", "null"},
    // llama.cpp
    {"grammar", "\"\""},
    {"json_schema", "null"},
    {"mirostat", "0"},
    {"typical_p", "1"},
    {"dynatemp_range", "0"},
    {"dry_multiplier", "0"},
    {"xtc_probability", "0"},
    {"lora", "[]"},
};

bool AsksForNothing(const Json& value, const char* harmless) {
  if ((value.is_array() || value.is_object()) && value.empty()) return true;
  return value == Json::parse(harmless, nullptr, false);
}

}  // namespace

void RefuseFields(FieldReader& fields) {
  for (const Refused& refused : kRefused) {
    const Json* value = fields.Find(refused.name);
    if (value == nullptr || AsksForNothing(*value, refused.harmless)) continue;
    return fields.Fail(refused.name, "is not supported", "unsupported");
  }
  const Json* format = fields.Find("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) return fields.Fail("response_format", ValueText(*format) + ", must be an object");
  const auto type = format->find("type");
  if (type == format->end() || *type != "text") {
    fields.Fail("response_format.type",
                (type == format->end() ? "missing" : ValueText(*type)) + ", only \"text\" is supported",
                "unsupported");
  }
}

}  // namespace holdfast::server
