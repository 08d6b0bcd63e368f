#include "server/answer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/testing_engine.h"

namespace holdfast::server {
namespace {

// An answer that has ended: its body, or its events.
struct Ended {
  std::string text;
  std::optional<ApiError> error;
};

Ended Ask(FakeServing& serving, bool is_chat, const std::string& body, size_t max_bytes = 1 << 20) {
  auto prepared = PrepareRequest(serving.engine(), is_chat, body);
  if (auto* error = std::get_if<ApiError>(&prepared)) return {"", *error};
  auto begun = Answer::Begin(serving, std::move(std::get<PreparedRequest>(prepared)), "tenant",
                             {"id-1", 1234, "fake", is_chat}, nullptr);
  if (auto* error = std::get_if<ApiError>(&begun)) return {"", *error};
  auto& answer = *std::get<std::unique_ptr<Answer>>(begun);
  Ended ended;
  bool more = true;
  while (more || !answer.done()) {
    more = false;
    if (answer.is_stream()) {
      const std::string events = answer.TakeStream(max_bytes);
      EXPECT_LT(events.size(), max_bytes + 2048);
      ended.text += events;
      more = !events.empty();
    } else {
      answer.Gather(3);
    }
    if (!more) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ended.error = answer.error();
  if (!ended.error.has_value() && !answer.is_stream()) ended.text = answer.Body();
  return ended;
}

std::vector<Json> Events(const std::string& stream) {
  std::vector<Json> events;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    const std::string event = stream.substr(at, end - at);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    if (event == "data: [DONE]") {
      EXPECT_EQ(end + 2, stream.size()) << "nothing follows [DONE]";
      return events;
    }
    events.push_back(Json::parse(event.substr(6)));
    at = end + 2;
  }
  ADD_FAILURE() << "no [DONE]";
  return events;
}

TEST(Answer, ACompletionLooksAsOpenAisDoes) {
  FakeServing serving;
  EXPECT_EQ(
      Ask(serving, false, R"({"prompt":"ab","max_tokens":5,"seed":7})").text,
      R"({"id":"id-1","object":"text_completion","created":1234,"model":"fake","choices":[{"index":0,"text":"ababa","logprobs":null,)"
      R"("finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,)"
      R"("prompt_tokens_details":{"cached_tokens":1}},"holdfast":{"reused_tokens":1,"miss":{"cause":"token_differs","position":1,)"
      R"("message":"fake"}}})");
  EXPECT_EQ(serving.last().generate.sampling.seed, 7u);
  EXPECT_EQ(serving.last().name_space, "tenant");
}

TEST(Answer, AChatAnswerLooksAsOpenAisDoes) {
  FakeServing serving;
  EXPECT_EQ(
      Ask(serving, true, R"({"messages":[{"role":"user","content":"hi!"}]})").text,
      R"({"id":"id-1","object":"chat.completion","created":1234,"model":"fake","choices":[{"index":0,"message":{"role":"assistant",)"
      R"("content":"user:hi"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":8,)"
      R"("total_tokens":27,"prompt_tokens_details":{"cached_tokens":9}},"holdfast":{"reused_tokens":9,"miss":{"cause":)"
      R"("token_differs","position":9,"message":"fake"}}})");
}

TEST(Answer, TheContextsEndIsLengthAndSaysSo) {
  FakeServing serving;
  const Json json = Json::parse(Ask(serving, false, R"({"prompt":"a?"})").text);
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][0]["finish_detail"], "context");
}

TEST(Answer, CompletionLogprobsHaveTokensOffsetsAndTops) {
  FakeServing serving;
  const Json json = Json::parse(Ask(serving, false, R"({"prompt":"aé","max_tokens":4,"logprobs":2})").text);
  const Json& logprobs = json["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["a","bytes:\\xc3","bytes:\\xa9","a"])"));
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[-0.5,-0.5,-0.5,-0.5]"));
  EXPECT_EQ(logprobs["top_logprobs"][0], Json::parse(R"({"a":-0.5,"b":-1.5})"));
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,1,2,2]"));
}

TEST(Answer, LogprobsOfZeroAreThoseOfTheDrawnTokenAlone) {
  FakeServing serving;
  const Json json = Json::parse(Ask(serving, false, R"({"prompt":"a","max_tokens":1,"logprobs":0})").text);
  EXPECT_EQ(json["choices"][0]["logprobs"]["top_logprobs"], Json::parse(R"([{"a":-0.5}])"));
}

TEST(Answer, ChatLogprobsHaveBytesAndLeaveTheEndTokenOut) {
  FakeServing serving;
  const Json json = Json::parse(
      Ask(serving, true, R"({"messages":[{"role":"user","content":"!"}],"logprobs":true,"top_logprobs":1})")
          .text);
  const Json& content = json["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 5u) << "user:";
  EXPECT_EQ(
      content[0],
      Json::parse(
          R"({"token":"u","logprob":-0.5,"bytes":[117],"top_logprobs":[{"token":"u","logprob":-0.5,"bytes":[117]}]})"));
}

TEST(Answer, SeveralPromptsAndChoicesComeInOrderAndAPromptCountsOnce) {
  FakeServing serving;
  const Json json =
      Json::parse(Ask(serving, false, R"({"prompt":["ab","xyz"],"n":2,"max_tokens":3,"seed":5})").text);
  ASSERT_EQ(json["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    EXPECT_EQ(json["choices"][i]["text"], i < 2 ? "aba" : "xyz");
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 3 + 4);
  EXPECT_EQ(json["usage"]["completion_tokens"], 12);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 1 + 2);
  EXPECT_EQ(json["holdfast"]["choices"].size(), 4u);
  EXPECT_EQ(serving.last().generate.sampling.seed, 6u) << "the second choice has the next seed";
}

TEST(Answer, AnEchoBeginsWithThePrompt) {
  FakeServing serving;
  for (const char* prompt : {"\"ab\"", "[97,98]"}) {
    const std::string fields = "{\"prompt\":" + std::string(prompt) + R"(,"max_tokens":3,"echo":true)";
    EXPECT_EQ(Json::parse(Ask(serving, false, fields + "}").text)["choices"][0]["text"], "ababa");
    std::string text;
    for (const Json& event : Events(Ask(serving, false, fields + R"(,"stream":true})").text))
      text += event["choices"][0]["text"];
    EXPECT_EQ(text, "ababa");
  }
}

TEST(Answer, AnEchosLogprobsBeginWithThePromptsOfWhichTheFirstHasNone) {
  FakeServing serving;
  const auto choice = [&](const std::string& fields) {
    return Json::parse(
        Ask(serving, false, "{" + fields + R"(,"echo":true,"logprobs":1})").text)["choices"][0];
  };
  const Json text = choice(R"("prompt":"aé","max_tokens":1)");
  EXPECT_TRUE(serving.last().prompt_logprobs);
  EXPECT_EQ(text["text"], "aéa");
  EXPECT_EQ(text["logprobs"]["tokens"], Json::parse(R"(["<begin>","a","bytes:\\xc3","bytes:\\xa9","a"])"));
  EXPECT_EQ(text["logprobs"]["token_logprobs"], Json::parse("[null,-0.25,-0.25,-0.25,-0.5]"));
  EXPECT_EQ(text["logprobs"]["top_logprobs"][0], nullptr);
  EXPECT_EQ(text["logprobs"]["top_logprobs"][1], Json::parse(R"({"a":-0.25})"));
  EXPECT_EQ(text["logprobs"]["text_offset"], Json::parse("[0,0,1,2,2]")) << "the begin token has no text";
  const Json tokens = choice(R"("prompt":[97,98],"max_tokens":0)");
  EXPECT_EQ(tokens["text"], "ab");
  EXPECT_EQ(tokens["finish_reason"], "length");
  EXPECT_EQ(tokens["logprobs"]["tokens"], Json::parse(R"(["a","b"])"));
  EXPECT_EQ(tokens["logprobs"]["token_logprobs"], Json::parse("[null,-0.25]"));
  EXPECT_EQ(tokens["logprobs"]["text_offset"], Json::parse("[0,1]"));
  Json streamed = Json::array();
  const std::string body = R"({"prompt":[97,98],"max_tokens":2,"echo":true,"logprobs":0,"stream":true})";
  for (const Json& event : Events(Ask(serving, false, body).text)) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (!logprobs.is_null())
      streamed.insert(streamed.end(), logprobs["token_logprobs"].begin(), logprobs["token_logprobs"].end());
  }
  EXPECT_EQ(streamed, Json::parse("[null,-0.25,-0.5,-0.5]"));
}

TEST(Answer, TheChoicesOfAnEchoShareItsPromptsLogprobs) {
  FakeServing serving;
  const std::string fields =
      R"({"prompt":[[97,98],[99,100,101]],"n":3,"max_tokens":1,"echo":true,"logprobs":0)";
  const Json choices = Json::parse(Ask(serving, false, fields + "}").text)["choices"];
  ASSERT_EQ(choices.size(), 6u);
  EXPECT_FALSE(serving.last().prompt_logprobs) << "computed once a prompt";
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(choices[i]["logprobs"]["token_logprobs"],
              Json::parse(i < 3 ? "[null,-0.25,-0.5]" : "[null,-0.25,-0.25,-0.5]"))
        << i;
  }
  std::vector<size_t> streamed(6);
  for (const Json& event : Events(Ask(serving, false, fields + R"(,"stream":true})").text)) {
    const Json& choice = event["choices"][0];
    if (!choice["logprobs"].is_null())
      streamed[choice["index"].get<size_t>()] += choice["logprobs"]["tokens"].size();
  }
  EXPECT_EQ(streamed, (std::vector<size_t>{3, 3, 3, 4, 4, 4}));
}

TEST(Answer, AStreamIsTheSameTextInWholeCharacters) {
  FakeServing serving;
  const auto events =
      Events(Ask(serving, false, R"({"prompt":"aé€😀","max_tokens":26,"stream":true})", 100).text);
  std::string text;
  for (const Json& event : events) text += event["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, "aé€😀aé€😀aé€");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events.back()["holdfast"]["reused_tokens"], 5);
  EXPECT_FALSE(events.front().contains("holdfast") || events.front().contains("usage"));
  EXPECT_EQ(events.front()["object"], "text_completion");
}

TEST(Answer, AStreamedChatSaysItsRoleOnceAndEndsWithUsage) {
  FakeServing serving;
  const auto events = Events(
      Ask(serving, true,
          R"({"messages":[{"role":"user","content":"hi!"}],"stream":true,"stream_options":{"include_usage":true},"n":2})")
          .text);
  std::string text[2];
  int roles = 0, finishes = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_TRUE(events[i]["usage"].is_null());
    const Json& choice = events[i]["choices"][0];
    if (choice["delta"].contains("role")) ++roles;
    if (choice["delta"].contains("content"))
      text[choice["index"].get<size_t>()] += choice["delta"]["content"];
    if (!choice["finish_reason"].is_null()) ++finishes;
  }
  EXPECT_EQ(text[0], "user:hi");
  EXPECT_EQ(text[1], "user:hi");
  EXPECT_EQ(roles, 2);
  EXPECT_EQ(finishes, 2);
  EXPECT_EQ(events.back()["choices"], Json::array());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 16);
  EXPECT_EQ(events.back()["holdfast"]["choices"].size(), 2u);
}

TEST(Answer, StreamedLogprobsGoOnWhereTheLastEnded) {
  FakeServing serving;
  const auto events =
      Events(Ask(serving, false, R"({"prompt":"ab","max_tokens":3,"logprobs":1,"stream":true})").text);
  ASSERT_EQ(events.size(), 4u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(events[i]["choices"][0]["logprobs"]["text_offset"], Json::array({i}));
  EXPECT_TRUE(events[3]["choices"][0]["logprobs"].is_null());
}

TEST(Answer, AnotherTenantsPrefixIsNotTold) {
  FakeServing serving;
  const Json told = Json::parse(Ask(serving, false, R"({"prompt":[78,97],"max_tokens":1})").text);
  const Json plain = Json::parse(Ask(serving, false, R"({"prompt":[79,97],"max_tokens":1})").text);
  EXPECT_EQ(told["holdfast"], plain["holdfast"]);
}

TEST(Answer, WhatTheEngineRefusesLeavesNothingRunning) {
  FakeServing serving({.max_live = 3, .paused = true});
  const Ended full = Ask(serving, false, R"({"prompt":"a","n":4})");
  ASSERT_TRUE(full.error.has_value());
  EXPECT_EQ(full.error->status, 429);
  EXPECT_EQ(full.error->param, "") << "no field is at fault";
  EXPECT_EQ(serving.submitted(), 0) << "all or none";
  EXPECT_EQ(serving.live(), 0);
  const Ended far = Ask(serving, false, "{\"prompt\":\"" + std::string(70'000, 'a') + "\"}");
  EXPECT_EQ(far.error->status, 400);
  EXPECT_EQ(far.error->code, "context_length_exceeded");
  EXPECT_EQ(Ask(serving, false, R"({"prompt":[300]})").error->param, "prompt");
  EXPECT_EQ(Ask(serving, false, R"({"prompt":"a","logit_bias":{"300":1}})").error->param, "logit_bias");
  serving.DrainNow();
  EXPECT_EQ(Ask(serving, false, R"({"prompt":"a"})").error->status, 503);
}

TEST(Answer, MoreChoicesThanAreEverTakenAre400WithTheNumbers) {
  FakeServing serving({.most_requests = 3});
  EXPECT_FALSE(Ask(serving, false, R"({"prompt":"a","n":3,"max_tokens":1})").error.has_value());
  for (const auto& [body, param] : {std::pair(R"({"prompt":"a","n":4,"max_tokens":1})", "n"),
                                    std::pair(R"({"prompt":["a","b","c","d"],"max_tokens":1})", "prompt")}) {
    const Ended refused = Ask(serving, false, body);
    ASSERT_TRUE(refused.error.has_value()) << body;
    EXPECT_EQ(refused.error->status, 400);
    EXPECT_EQ(refused.error->param, param);
    EXPECT_NE(refused.error->message.find("4 choices in all, at most 3"), std::string::npos)
        << refused.error->message;
  }
}

TEST(Answer, AnAnswerOfNoTokensIsEmpty) {
  FakeServing serving;
  const Json json = Json::parse(Ask(serving, false, R"({"prompt":"ab","max_tokens":0})").text);
  EXPECT_EQ(json["choices"][0]["text"], "");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
}

TEST(Answer, LogprobsOfAnAnswerThatEndsAtOnceAreListsOfNone) {
  FakeServing serving({.ends_at_once = true});
  const std::string messages = R"({"messages":[{"role":"user","content":"a"}])";
  const auto logprobs = [&](bool is_chat, const std::string& body) {
    return Json::parse(Ask(serving, is_chat, body).text)["choices"][0]["logprobs"];
  };
  EXPECT_EQ(logprobs(true, messages + R"(,"logprobs":true})"), Json::parse(R"({"content":[]})"));
  EXPECT_EQ(logprobs(true, messages + "}"), nullptr);
  EXPECT_EQ(logprobs(false, R"({"prompt":"a","logprobs":0})"),
            Json::parse(R"({"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]})"));
}

TEST(Answer, AFailureInTheMiddleEndsEveryChoiceAndSaysWhy) {
  FakeServing serving({.fail_after = 2});
  const Ended plain = Ask(serving, false, R"({"prompt":"ab","n":3})");
  ASSERT_TRUE(plain.error.has_value());
  EXPECT_EQ(plain.error->status, 500);
  EXPECT_EQ(serving.live(), 0);
  const auto events = Events(Ask(serving, false, R"({"prompt":"ab","stream":true})").text);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2]["error"]["message"], "fake: it failed");
  EXPECT_EQ(events[2]["error"]["type"], "server_error");
}

}  // namespace
}  // namespace holdfast::server
