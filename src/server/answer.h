// One answer in the making: its choices' requests in the engine, and the text that came of them so far.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/serving.h"
#include "server/choice_logprobs.h"
#include "server/openai_response.h"
#include "server/prepared_request.h"

namespace holdfast::server {

// Used by one thread at a time. Destroying it cancels what still runs.
class Answer {
 public:
  // Submits the choices, all or none. on_event: as ServingEngine::Submit. Errors: more choices than are ever taken at a
  // time, with the numbers; those of SubmitTogether.
  static std::variant<std::unique_ptr<Answer>, ApiError> Begin(ServingEngine& serving,
                                                               PreparedRequest prepared,
                                                               const std::string& name_space, AnswerHead head,
                                                               const std::function<void()>& on_event);

  // Takes what the engine has ready. For a streamed answer: the events to send, no more than some max_bytes
  // at a time (the rest stays in the engine, whose queue is bounded by the request's own tokens), `[DONE]` at
  // the end. Empty: nothing is ready.
  std::string TakeStream(size_t max_bytes);
  // What the next call of it may come to beyond that, about: the log probabilities of echoed prompts come in one event.
  size_t prompt_bytes() const;
  // For a plain one: keeps it for Body. Not more than max_events at a time; false: nothing was ready.
  bool Gather(int max_events);

  // Ends what still runs with this error; nothing where all is done.
  void Fail(ApiError error);
  bool done() const;  // every choice has ended, or one has failed
  const std::optional<ApiError>& error() const { return error_; }
  // REQUIRES done() and no error, plain. Once; on any thread, nothing else of this object being called meanwhile.
  std::string Body();
  size_t body_bytes() const;  // what Body will come to, about: making it takes time in proportion
  bool is_stream() const { return request_.stream; }

 private:
  struct Choice {
    int prompt = 0;
    std::unique_ptr<ServedRequest> running;  // none: ended
    ChoiceLogprobs logprobs;
    ChoiceText answer;
    std::string echo;           // not sent yet
    bool started = false;       // something of it was streamed
    bool wants_prompt = false;  // its log probabilities, not taken yet
    Receipt receipt;
    int64_t completion_tokens = 0;
  };

  Answer(const Engine& engine, AnswerHead head, GenerationRequest request);
  std::optional<ServingEvent> TakeEvent(Choice& choice);
  bool PromptIsKnown(const Choice& choice) const;
  void End(Choice& choice, const ServingEvent& event);
  std::string Chunks(Choice& choice, const ServingEvent& event);
  std::string Chunk(Choice& choice, ChoiceText part);
  std::string StreamEnd();
  Usage TotalUsage() const;
  std::vector<Receipt> Receipts() const;

  const Engine* engine_;
  AnswerHead head_;
  GenerationRequest request_;
  std::vector<std::vector<int32_t>> prompts_;
  // Of each prompt, once its first choice has brought them: the others wait for them.
  std::vector<std::optional<std::vector<PositionLogprobs>>> prompt_logprobs_;
  std::vector<Choice> choices_;
  std::optional<ApiError> error_;
  size_t running_ = 0;
  bool stream_ended_ = false;
};

}  // namespace holdfast::server
