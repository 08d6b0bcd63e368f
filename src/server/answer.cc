#include "server/answer.h"

#include <utility>

namespace holdfast::server {
namespace {

ServingRequest RequestOf(const GenerationRequest& request, const std::vector<int32_t>& tokens,
                         const std::string& name_space, int choice) {
  ServingRequest result;
  result.tokens = tokens;
  result.generate = request.generate;
  result.generate.sampling.seed +=
      static_cast<uint64_t>(choice);  // choices of one prompt differ, and can be had again
  result.name_space = name_space;
  result.top_logprobs = request.top_logprobs;
  result.prompt_logprobs = request.wants_prompt_logprobs() && choice == 0;
  return result;
}

// What would be refused even if nothing else ran must not be told to try again.
std::optional<ApiError> CheckChoices(const GenerationRequest& request, size_t prompts,
                                     const ServingLimits& limits) {
  const int64_t choices = static_cast<int64_t>(prompts) * request.n;
  if (choices <= limits.requests) return std::nullopt;
  const char* field = request.n > 1 ? "n" : "prompt";
  return ApiError{400,
                  std::string(field) + ": " + std::to_string(choices) + " choices in all, at most " +
                      std::to_string(limits.requests) + " may run and wait at a time",
                  field, "too_many_choices"};
}

// A full queue or a draining server is no field's fault.
ApiError RefusalOf(const Status& status, const char* field) {
  ApiError error = ErrorOf(status);
  if (error.status == 400) error.param = field;
  return error;
}

}  // namespace

Answer::Answer(const Engine& engine, AnswerHead head, GenerationRequest request)
    : engine_(&engine), head_(std::move(head)), request_(std::move(request)) {}

std::variant<std::unique_ptr<Answer>, ApiError> Answer::Begin(ServingEngine& serving,
                                                              PreparedRequest prepared,
                                                              const std::string& name_space, AnswerHead head,
                                                              const std::function<void()>& on_event) {
  std::unique_ptr<Answer> answer(new Answer(serving.engine(), std::move(head), std::move(prepared.request)));
  const GenerationRequest& request = answer->request_;
  answer->prompts_ = std::move(prepared.prompts);
  if (auto error = CheckChoices(request, answer->prompts_.size(), serving.limits())) return *error;
  std::vector<ServingRequest> requests;
  for (const std::vector<int32_t>& prompt : answer->prompts_) {
    for (int i = 0; i < request.n; ++i) requests.push_back(RequestOf(request, prompt, name_space, i));
  }
  auto running = serving.SubmitTogether(requests, on_event);
  if (!running.ok()) return RefusalOf(running.status(), request.is_chat ? "messages" : "prompt");
  for (size_t c = 0; c < running->size(); ++c) {
    const size_t p = c / static_cast<size_t>(request.n);
    Choice choice{static_cast<int>(p),
                  std::move((*running)[c]),
                  ChoiceLogprobs(serving.engine(), request.is_chat, prepared.echoes[p]),
                  {},
                  prepared.echoes[p],
                  false,
                  request.wants_prompt_logprobs(),
                  {},
                  0};
    choice.answer.index = static_cast<int>(c);
    answer->choices_.push_back(std::move(choice));
  }
  answer->prompt_logprobs_.resize(answer->prompts_.size());
  answer->running_ = answer->choices_.size();
  return answer;
}

bool Answer::done() const {
  return error_.has_value() || running_ == 0;
}

void Answer::Fail(ApiError error) {
  if (!done()) error_ = std::move(error);
  for (Choice& choice : choices_) choice.running.reset();
  running_ = 0;
}

void Answer::End(Choice& choice, const ServingEvent& event) {
  choice.receipt = choice.running->receipt();
  choice.completion_tokens = choice.running->completion_tokens();
  choice.answer.finish = event.finish;
  choice.running.reset();
  --running_;
}

// Whether the choice's answer can begin: with its prompt's log probabilities, where it echoes them.
bool Answer::PromptIsKnown(const Choice& choice) const {
  return !choice.wants_prompt || choice.answer.index % request_.n == 0 ||
         prompt_logprobs_[static_cast<size_t>(choice.prompt)].has_value();
}

// The choice's next event, its end and its log probabilities recorded.
std::optional<ServingEvent> Answer::TakeEvent(Choice& choice) {
  if (choice.running == nullptr || !PromptIsKnown(choice)) return std::nullopt;
  auto event = choice.running->Take();
  if (!event.has_value()) return event;
  if (!event->error.ok() || event->finish == FinishReason::kCancelled) {
    Fail(ErrorOf(event->error.ok() ? Cancelled("generate: the request was cancelled") : event->error));
    return std::nullopt;
  }
  if (std::exchange(choice.wants_prompt, false)) {
    auto& logprobs = prompt_logprobs_[static_cast<size_t>(choice.prompt)];
    if (!logprobs.has_value()) logprobs = choice.running->TakePromptLogprobs();
    choice.logprobs.AddPrompt(prompts_[static_cast<size_t>(choice.prompt)], *logprobs);
  }
  // An end token is no part of the answer.
  const bool is_end =
      event->finish == FinishReason::kStop && event->token >= 0 && engine_->IsEndToken(event->token);
  if (event->logprob.has_value() && !is_end) choice.logprobs.Add(*event);
  if (event->finish != FinishReason::kNone) End(choice, *event);
  return event;
}

bool Answer::Gather(int max_events) {
  int taken = 0;
  for (Choice& choice : choices_) {
    while (taken < max_events) {
      const auto event = TakeEvent(choice);
      if (!event.has_value()) break;
      choice.answer.text += event->text;
      ++taken;
    }
  }
  return taken > 0;
}

std::string Answer::TakeStream(size_t max_bytes) {
  std::string out;
  for (bool more = true; more && out.size() < max_bytes;) {
    more = false;
    for (Choice& choice : choices_) {  // one of each at a time: none waits for another's whole answer
      const auto event = TakeEvent(choice);
      if (!event.has_value()) continue;
      out += Chunks(choice, *event);
      more = true;
    }
  }
  if (done() && !stream_ended_) {
    stream_ended_ = true;
    out += StreamEnd();
  }
  return out;
}

std::string Answer::Chunk(Choice& choice, ChoiceText part) {
  part.index = choice.answer.index;
  OrderedJson json = ChunkJson(head_, std::move(part), !choice.started);
  choice.started = true;
  if (request_.include_usage) json["usage"] = nullptr;
  const bool is_last =
      running_ == 0 && choice.running == nullptr && json["choices"][0]["finish_reason"] != nullptr;
  if (is_last && !request_.include_usage) json["holdfast"] = ReceiptsJson(Receipts());
  return ServerSentEvent(json);
}

std::string Answer::Chunks(Choice& choice, const ServingEvent& event) {
  std::string out;
  ChoiceText part;
  part.text = std::exchange(choice.echo, std::string()) + event.text;
  part.logprobs = choice.logprobs.Take();
  if (!part.text.empty() || !part.logprobs.is_null()) out += Chunk(choice, std::move(part));
  if (event.finish == FinishReason::kNone) return out;
  ChoiceText end;
  end.finish = event.finish;
  return out + Chunk(choice, std::move(end));
}

std::string Answer::StreamEnd() {
  std::string out;
  if (error_.has_value()) {
    out = ServerSentEvent(ErrorJson(*error_));
  } else if (request_.include_usage) {
    OrderedJson json = UsageChunkJson(head_, TotalUsage());
    json["holdfast"] = ReceiptsJson(Receipts());
    out = ServerSentEvent(json);
  }
  return out.append(kLastEvent);
}

Usage Answer::TotalUsage() const {
  Usage usage;
  int counted = -1;  // a prompt counts once, however many choices it has
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.completion_tokens;
    if (choice.prompt == counted) continue;
    counted = choice.prompt;
    usage.prompt_tokens += static_cast<int64_t>(prompts_[static_cast<size_t>(counted)].size());
    usage.cached_tokens += choice.receipt.reused_tokens;
  }
  return usage;
}

std::vector<Receipt> Answer::Receipts() const {
  std::vector<Receipt> receipts;
  for (const Choice& choice : choices_) receipts.push_back(choice.receipt);
  return receipts;
}

size_t Answer::prompt_bytes() const {
  size_t bytes = 0;
  for (const Choice& choice : choices_) {
    if (!choice.wants_prompt) continue;
    const size_t tokens = prompts_[static_cast<size_t>(choice.prompt)].size();
    bytes += LogprobsJsonBytes(tokens, static_cast<size_t>(request_.top_logprobs));
  }
  return bytes;
}

size_t Answer::body_bytes() const {
  size_t bytes = 0;
  for (const Choice& choice : choices_) {
    bytes += choice.echo.size() + choice.answer.text.size() + choice.logprobs.json_bytes();
  }
  return bytes;
}

std::string Answer::Body() {
  const auto take = [this](size_t i) {
    Choice& choice = choices_[i];
    choice.answer.text.insert(0, choice.echo);
    choice.answer.logprobs = request_.top_logprobs >= 0 ? choice.logprobs.TakeAll() : OrderedJson(nullptr);
    return std::move(choice.answer);
  };
  return AnswerText(head_, choices_.size(), take, TotalUsage(), Receipts());
}

}  // namespace holdfast::server
