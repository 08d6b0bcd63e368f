#include "server/openai_request.h"

#include <gtest/gtest.h>

#include <string>

#include "holdfast/serving.h"

namespace holdfast::server {
namespace {

GenerationRequest Completion(const std::string& body) {
  auto parsed = ParseCompletion(Json::parse(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << body << ": " << (error == nullptr ? "" : error->message);
  return error == nullptr ? std::get<GenerationRequest>(parsed) : GenerationRequest{};
}

GenerationRequest Chat(const std::string& body) {
  auto parsed = ParseChat(Json::parse(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << body << ": " << (error == nullptr ? "" : error->message);
  return error == nullptr ? std::get<GenerationRequest>(parsed) : GenerationRequest{};
}

// A prompt or message that is fine, and these fields.
std::string WithPrompt(const std::string& fields) {
  return R"({"prompt":"a",)" + fields + "}";
}
std::string WithMessage(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"a"}],)" + fields + "}";
}

TEST(OpenAiRequest, DefaultsAreOpenAis) {
  const auto completion = Completion(R"({"prompt":"hello"})");
  EXPECT_EQ(std::get<std::string>(completion.prompts.at(0)), "hello");
  EXPECT_EQ(completion.generate.max_tokens, 16);
  const auto chat = Chat(R"({"messages":[{"role":"user","content":"hello"}]})");
  EXPECT_EQ(chat.generate.max_tokens, -1);
  for (const GenerationRequest& request : {completion, chat}) {
    const SamplingOptions& sampling = request.generate.sampling;
    EXPECT_EQ(sampling.temperature, 1.0f);
    EXPECT_EQ(sampling.top_p, 1.0f);
    EXPECT_EQ(sampling.top_k, 0);
    EXPECT_EQ(sampling.min_p, 0.0f);
    EXPECT_EQ(sampling.repeat_penalty, 1.0f);
    EXPECT_EQ(sampling.presence_penalty, 0.0f);
    EXPECT_EQ(sampling.frequency_penalty, 0.0f);
    EXPECT_FALSE(request.has_seed || request.stream || request.include_usage || request.echo);
    EXPECT_EQ(request.n, 1);
    EXPECT_EQ(request.top_logprobs, -1);
    EXPECT_TRUE(request.generate.stop.empty());
  }
}

TEST(OpenAiRequest, EveryFieldIsRead) {
  const auto request = Completion(WithPrompt(
      R"("model":"m","max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":3,"min_p":0.125,"seed":42,"stop":["x","yy"],
         "n":2,"logprobs":5,"presence_penalty":-2,"frequency_penalty":1.5,"repeat_penalty":1.25,"logit_bias":{"7":-100,"8":1.5},
         "stream":true,"stream_options":{"include_usage":true},"user":"u","ignore_eos":true,"best_of":2)"));
  const SamplingOptions& sampling = request.generate.sampling;
  EXPECT_EQ(request.generate.max_tokens, 7);
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.25f);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_TRUE(request.has_seed);
  EXPECT_EQ(sampling.seed, 42u);
  EXPECT_EQ(request.generate.stop, (std::vector<std::string>{"x", "yy"}));
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.top_logprobs, 5);
  EXPECT_EQ(sampling.presence_penalty, -2.0f);
  EXPECT_EQ(sampling.frequency_penalty, 1.5f);
  EXPECT_EQ(sampling.repeat_penalty, 1.25f);
  EXPECT_EQ(sampling.logit_bias, (std::vector<LogitBias>{{7, -100.0f}, {8, 1.5f}}));
  EXPECT_TRUE(request.stream && request.include_usage && request.generate.ignore_eos);
  EXPECT_EQ(Completion(WithPrompt(R"("repetition_penalty":1.5,"stop":"x")")).generate.sampling.repeat_penalty,
            1.5f);
  EXPECT_EQ(Chat(WithMessage(R"("max_completion_tokens":9,"logprobs":true,"top_logprobs":2)")).top_logprobs,
            2);
  EXPECT_EQ(Chat(WithMessage(R"("logprobs":true)")).top_logprobs, 0);
}

TEST(OpenAiRequest, NullIsAsIfAFieldWereNotThere) {
  const auto request = Completion(WithPrompt(
      R"("max_tokens":null,"temperature":null,"stop":null,"n":null,"logprobs":null,"seed":null,"stream":null,
         "stream_options":null,"tools":null,"logit_bias":null,"response_format":null,"suffix":null)"));
  EXPECT_EQ(request.generate.max_tokens, 16);
  EXPECT_FALSE(request.has_seed);
}

TEST(OpenAiRequest, WhatIsUnknownIsIgnored) {
  Completion(WithPrompt(R"("no_such_field":{"a":[1,2]},"metadata":{"b":"c"},"store":false)"));
  Chat(WithMessage(
      R"("tools":[],"tool_choice":"none","response_format":{"type":"text"},"service_tier":"auto")"));
}

TEST(OpenAiRequest, PromptsComeInFourShapes) {
  EXPECT_EQ(Completion(R"({"prompt":["a","b"]})").prompts.size(), 2u);
  const auto tokens = Completion(R"({"prompt":[1,2,3]})");
  EXPECT_EQ(std::get<std::vector<int32_t>>(tokens.prompts.at(0)), (std::vector<int32_t>{1, 2, 3}));
  const auto lists = Completion(R"({"prompt":[[1],[2,3]]})");
  EXPECT_EQ(std::get<std::vector<int32_t>>(lists.prompts.at(1)), (std::vector<int32_t>{2, 3}));
}

TEST(OpenAiRequest, AnEchoMayHaveNoAnswerAndThePromptsLogprobs) {
  EXPECT_EQ(Completion(R"({"prompt":"a","max_tokens":0})").generate.max_tokens, 0);
  const auto request = Completion(R"({"prompt":"a","echo":true,"max_tokens":0,"logprobs":1})");
  EXPECT_EQ(request.generate.max_tokens, 0);
  EXPECT_TRUE(request.wants_prompt_logprobs());
  EXPECT_FALSE(Completion(R"({"prompt":"a","echo":true})").wants_prompt_logprobs());
  EXPECT_FALSE(Completion(R"({"prompt":"a","logprobs":0})").wants_prompt_logprobs());
}

TEST(OpenAiRequest, MessagesAreTextOrTextParts) {
  const auto request = Chat(
      R"({"messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},
          {"type":"text","text":"b"}],"name":"n"},{"role":"assistant","content":""}]})");
  ASSERT_EQ(request.messages.size(), 3u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "ab");
}

struct Bad {
  std::string body;
  const char* param;
};

void ExpectRefused(const std::variant<GenerationRequest, ApiError>& parsed, const Bad& bad) {
  const auto* error = std::get_if<ApiError>(&parsed);
  ASSERT_NE(error, nullptr) << bad.body;
  EXPECT_EQ(error->status, 400) << bad.body;
  EXPECT_EQ(error->param, bad.param) << bad.body << ": " << error->message;
  EXPECT_NE(error->message.find(bad.param), std::string::npos) << error->message;
  EXPECT_LT(error->message.size(), 300u);
}

TEST(OpenAiRequest, BadFieldsOfBothKindsAreRefusedByName) {
  const char* const kBad[][2] = {
      {R"("temperature":"1")", "temperature"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.01)", "temperature"},
      {R"("temperature":true)", "temperature"},
      {R"("temperature":[1])", "temperature"},
      {R"("top_p":1.5)", "top_p"},
      {R"("top_p":-1)", "top_p"},
      {R"("min_p":2)", "min_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":99999999999)", "top_k"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":"x")", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":1e3)", "max_tokens"},
      {R"("max_tokens":"7")", "max_tokens"},
      {R"("max_tokens":18446744073709551615)", "max_tokens"},
      {R"("max_tokens":[])", "max_tokens"},
      {R"("n":0)", "n"},
      {R"("n":17)", "n"},
      {R"("n":true)", "n"},
      {R"("stop":[])", ""},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop[1]"},
      {R"("stop":["a",1])", "stop[1]"},
      {R"("stop":7)", "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("presence_penalty":2.5)", "presence_penalty"},
      {R"("frequency_penalty":-3)", "frequency_penalty"},
      {R"("frequency_penalty":"a")", "frequency_penalty"},
      {R"("repeat_penalty":0)", "repeat_penalty"},
      {R"("repetition_penalty":-1)", "repetition_penalty"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias"},
      {R"("logit_bias":{"01":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias.1"},
      {R"("logit_bias":{"1":"x"})", "logit_bias.1"},
      {R"("stream":1)", "stream"},
      {R"("stream":"true")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":7)", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":"yes"})", "stream_options.include_usage"},
      {R"("model":7)", "model"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("tool_choice":"auto")", "tool_choice"},
      {R"("functions":[{}])", "functions"},
      {R"("function_call":{"name":"f"})", "function_call"},
      {R"("response_format":{"type":"json_object"})", "response_format.type"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":"text")", "response_format"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("grammar":"root ::= x")", "grammar"},
      {R"("guided_json":{"type":"object"})", "guided_json"},
      {R"("suffix":"x")", "suffix"},
      {R"("mirostat":2)", "mirostat"},
  };
  for (const auto& [fields, param] : kBad) {
    if (*param == '\0') continue;
    SCOPED_TRACE(fields);
    ExpectRefused(ParseCompletion(Json::parse(WithPrompt(fields))), {fields, param});
    ExpectRefused(ParseChat(Json::parse(WithMessage(fields))), {fields, param});
  }
  Completion(WithPrompt(R"("stop":[])"));
  const std::string long_stop = R"("stop":")" + std::string(1025, 'x') + "\"";
  ExpectRefused(ParseChat(Json::parse(WithMessage(long_stop))), {"long stop", "stop"});
}

TEST(OpenAiRequest, BadPromptsAreRefusedByName) {
  const Bad kBad[] = {
      {R"({})", "prompt"},
      {R"({"prompt":null})", "prompt"},
      {R"({"prompt":7})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":{}})", "prompt"},
      {R"({"prompt":[[]]})", "prompt[0]"},
      {R"({"prompt":["a",7]})", "prompt[1]"},
      {R"({"prompt":[7,"a"]})", "prompt[1]"},
      {R"({"prompt":[1.5]})", "prompt[0]"},
      {R"({"prompt":[-1]})", "prompt[0]"},
      {R"({"prompt":[4294967296]})", "prompt[0]"},
      {R"({"prompt":[[1],[-1]]})", "prompt[1][0]"},
      {R"({"prompt":[null]})", "prompt[0]"},
      {R"({"prompt":[true]})", "prompt[0]"},
      {WithPrompt(R"("logprobs":21)"), "logprobs"},
      {WithPrompt(R"("logprobs":-1)"), "logprobs"},
      {WithPrompt(R"("logprobs":true)"), "logprobs"},
      {WithPrompt(R"("echo":true,"max_tokens":-1)"), "max_tokens"},
      {WithPrompt(R"("echo":"yes")"), "echo"},
      {WithPrompt(R"("best_of":3)"), "best_of"},
      {R"({"prompt":["1","2","3","4","5","6","7","8","9"],"n":16})", "n"},
  };
  for (const Bad& bad : kBad) ExpectRefused(ParseCompletion(Json::parse(bad.body)), bad);
  Json many = {{"prompt", std::vector<std::string>(129, "a")}};
  ExpectRefused(ParseCompletion(many), {"129 prompts", "prompt"});
  for (const char* body : {"[]", "7", "null", "\"a\""}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseCompletion(Json::parse(body)))) << body;
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseChat(Json::parse(body)))) << body;
  }
}

TEST(OpenAiRequest, BadMessagesAreRefusedByName) {
  const Bad kBad[] = {
      {R"({})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"hello"})", "messages"},
      {R"({"messages":["hello"]})", "messages[0]"},
      {R"({"messages":[{"content":"a"}]})", "messages[0].role"},
      {R"({"messages":[{"role":7,"content":"a"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"tool","content":"a"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":null}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":7}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":["a"]}]})", "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text"},
      {R"({"messages":[{"role":"assistant","content":"a","tool_calls":[{}]}]})", "messages[0].tool_calls"},
      {WithMessage(R"("top_logprobs":2)"), "top_logprobs"},
      {WithMessage(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs"},
      {WithMessage(R"("logprobs":2)"), "logprobs"},
      {WithMessage(R"("max_completion_tokens":0)"), "max_completion_tokens"},
  };
  for (const Bad& bad : kBad) ExpectRefused(ParseChat(Json::parse(bad.body)), bad);
}

TEST(OpenAiRequest, TokenizeTakesLlamaCppsAndVllmsShapes) {
  const auto llama =
      std::get<TokenizeRequest>(ParseTokenize(Json::parse(R"({"content":"a","with_pieces":true})")));
  EXPECT_FALSE(llama.options.add_special);
  EXPECT_TRUE(llama.options.parse_special && llama.with_pieces);
  const auto vllm = std::get<TokenizeRequest>(ParseTokenize(Json::parse(R"({"prompt":"a"})")));
  EXPECT_TRUE(vllm.options.add_special);
  const auto none =
      std::get<TokenizeRequest>(ParseTokenize(Json::parse(R"({"prompt":"a","add_special_tokens":false})")));
  EXPECT_FALSE(none.options.add_special);
  for (const char* body :
       {R"({})", R"({"content":7})", R"({"prompt":["a"]})", R"({"content":"a","add_special":1})"}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseTokenize(Json::parse(body)))) << body;
  }
  for (const char* body : {R"({})", R"({"tokens":7})", R"({"tokens":[-1]})", R"({"tokens":["a"]})"}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseDetokenize(Json::parse(body)))) << body;
  }
}

}  // namespace
}  // namespace holdfast::server
