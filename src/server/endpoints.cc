#include "server/endpoints.h"

#include <openssl/evp.h>

#include "server/openai_request.h"
#include "server/page.h"
#include "server/vocabulary.h"

namespace holdfast::server {
namespace {

HttpAnswer JsonAnswer(const OrderedJson& json) {
  return {200, "application/json", ToText(json), {}};
}

OrderedJson ModelJson(const ServingEngine& serving, const ServedModel& model) {
  OrderedJson json;
  json["id"] = model.name;
  json["object"] = "model";
  json["created"] = model.created;
  json["owned_by"] = "holdfast";
  json["max_model_len"] = serving.limits().context_tokens;
  return json;
}

HttpAnswer Models(const ServingEngine& serving, const ServedModel& model) {
  OrderedJson json;
  json["object"] = "list";
  json["data"] = OrderedJson::array({ModelJson(serving, model)});
  return JsonAnswer(json);
}

HttpAnswer OneModel(const std::string& name, const ServingEngine& serving, const ServedModel& model) {
  if (name == model.name) return JsonAnswer(ModelJson(serving, model));
  return ErrorAnswer({404, "models: no model " + name.substr(0, 80) + ", " + model.name + " is served",
                      "model", "model_not_found"});
}

// A piece may be half a character: then its bytes.
OrderedJson PieceJson(const std::string& piece) {
  const std::string text = OrderedJson::parse(ToText(OrderedJson(piece)));
  if (text == piece) return piece;
  OrderedJson bytes = OrderedJson::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

HttpAnswer Tokenize(std::string_view body, const ServingEngine& serving) {
  const Engine& engine = serving.engine();
  auto json = ParseJsonBody(body);
  if (!json.ok()) return ErrorAnswer(ErrorOf(json.status()));
  const auto parsed = ParseTokenize(*json);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return ErrorAnswer(*error);
  const auto& request = std::get<TokenizeRequest>(parsed);
  auto tokens = request.messages.empty() ? engine.Tokenize(request.text, request.options)
                                         : engine.TokenizeChat(request.messages, {});
  if (!tokens.ok()) return ErrorAnswer(ErrorOf(tokens.status()));
  OrderedJson answer;
  if (request.with_pieces) {
    answer["tokens"] = OrderedJson::array();
    for (const int32_t token : *tokens) {
      const auto piece = engine.TokenPiece(token);
      if (!piece.ok()) return ErrorAnswer(ErrorOf(piece.status()));
      answer["tokens"].push_back({{"id", token}, {"piece", PieceJson(*piece)}});
    }
  } else {
    answer["tokens"] = *tokens;
  }
  answer["count"] = tokens->size();
  answer["max_model_len"] = serving.limits().context_tokens;
  return JsonAnswer(answer);
}

HttpAnswer Detokenize(std::string_view body, const Engine& engine) {
  auto json = ParseJsonBody(body);
  if (!json.ok()) return ErrorAnswer(ErrorOf(json.status()));
  const auto parsed = ParseDetokenize(*json);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return ErrorAnswer(*error);
  const auto& tokens = std::get<std::vector<int32_t>>(parsed);
  if (const auto error = CheckVocabulary(engine, "tokens", tokens)) return ErrorAnswer(*error);
  auto text = engine.Detokenize(tokens);
  if (!text.ok()) return ErrorAnswer(ErrorOf(text.status()));
  OrderedJson answer;
  answer["content"] = *text;  // llama.cpp's name
  answer["prompt"] = *text;   // vLLM's
  return JsonAnswer(answer);
}

HttpAnswer Health(bool draining) {
  OrderedJson json;
  json["status"] = draining ? "draining" : "ok";
  return {draining ? 503 : 200, "application/json", ToText(json), {}};
}

// `'sha256-...'` of what stands between the tags: the page's own script and style, and no other, may run.
std::string SourceHash(std::string_view html, std::string_view open, std::string_view close) {
  const size_t begin = html.find(open) + open.size();
  const std::string_view source = html.substr(begin, html.find(close, begin) - begin);
  unsigned char digest[32] = {}, encoded[48] = {};
  unsigned int size = 0;
  EVP_Digest(source.data(), source.size(), digest, &size, EVP_sha256(), nullptr);
  EVP_EncodeBlock(encoded, digest, static_cast<int>(sizeof digest));
  return "'sha256-" + std::string(reinterpret_cast<const char*>(encoded)) + "'";
}

HttpAnswer Page() {
  static const std::string policy =
      "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'; script-src " +
      SourceHash(kPageHtml, "<script>", "</script>") + "; style-src " +
      SourceHash(kPageHtml, "<style>", "</style>");
  return {200,
          "text/html; charset=utf-8",
          std::string(kPageHtml),
          {{"Content-Security-Policy", policy}, {"Referrer-Policy", "no-referrer"}}};
}

}  // namespace

HttpAnswer ErrorAnswer(const ApiError& error) {
  HttpAnswer answer{error.status, "application/json", ToText(ErrorJson(error)), {}};
  if (error.status == 429) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

HttpAnswer AnswerTokenizing(Endpoint endpoint, std::string_view body, const ServingEngine& serving) {
  return endpoint == Endpoint::kTokenize ? Tokenize(body, serving) : Detokenize(body, serving.engine());
}

HttpAnswer AnswerEndpoint(const Route& route, const ServingEngine& serving, const ServedModel& model,
                          const HttpFigures& http, bool draining) {
  switch (route.endpoint) {
    case Endpoint::kPage:
      return Page();
    case Endpoint::kHealth:
      return Health(draining);
    case Endpoint::kMetrics:
      return {200, kMetricsType, MetricsText(serving.metrics(), serving.pool(), http), {}};
    case Endpoint::kCache:
      return JsonAnswer(CacheJson(serving.pool()));
    case Endpoint::kModels:
      return Models(serving, model);
    case Endpoint::kModel:
      return OneModel(route.name, serving, model);
    case Endpoint::kCompletions:
    case Endpoint::kChat:
    case Endpoint::kTokenize:
    case Endpoint::kDetokenize:
      break;
  }
  return ErrorAnswer({500, "request: not answered here", "", "internal_error"});
}

}  // namespace holdfast::server
