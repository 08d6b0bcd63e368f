#include "engine/serving_testing.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

namespace holdfast {

Answer AnswerOf(ServedRequest& request) {
  Answer answer;
  while (auto event = request.Wait()) {
    if (event->token >= 0) answer.tokens.push_back(event->token);
    if (event->logprob) answer.logprobs.push_back(*event->logprob);
    answer.logprobs.insert(answer.logprobs.end(), event->top.begin(), event->top.end());
    answer.text += event->text;
    answer.finish = event->finish;
    answer.error = event->error;
  }
  answer.receipt = request.receipt();
  return answer;
}

std::string Difference(const Answer& a, const Answer& b) {
  if (!a.error.ok() || !b.error.ok()) return "failed: " + a.error.message() + " / " + b.error.message();
  for (size_t i = 0; i < std::min(a.tokens.size(), b.tokens.size()); ++i) {
    if (a.tokens[i] != b.tokens[i])
      return "token " + std::to_string(i) + " is " + std::to_string(a.tokens[i]) + " and " +
             std::to_string(b.tokens[i]);
  }
  if (a.tokens.size() != b.tokens.size())
    return std::to_string(a.tokens.size()) + " and " + std::to_string(b.tokens.size()) + " tokens";
  if (a.finish != b.finish || a.text != b.text) return "another text or end";
  if (a.logprobs.size() != b.logprobs.size()) return "another number of log probabilities";
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    if (a.logprobs[i].token != b.logprobs[i].token ||
        std::bit_cast<uint32_t>(a.logprobs[i].logprob) != std::bit_cast<uint32_t>(b.logprobs[i].logprob))
      return "log probability " + std::to_string(i) + " of token " + std::to_string(a.logprobs[i].token) +
             " is " + std::to_string(a.logprobs[i].logprob) + ", and of token " +
             std::to_string(b.logprobs[i].token) + " " + std::to_string(b.logprobs[i].logprob);
  }
  return "";
}

GenerateOptions GreedyOptions(int64_t max_tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0.0f;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  return options;
}

std::vector<ServingRequest> MixedRequests(int count, std::span<const int32_t> text, int64_t longest_prompt,
                                          int64_t longest_answer, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<ServingRequest> requests;
  for (int i = 0; i < count; ++i) {
    ServingRequest request;
    const int64_t length = 1 + below(longest_prompt);
    // One of three beginnings, and then words of its own.
    const int64_t shared = std::min(length, below(longest_prompt));
    const auto tokens = static_cast<int64_t>(text.size());
    const int64_t beginning = below(3) * (tokens / 4);
    const int64_t own = tokens / 2 + below(tokens / 2 - longest_prompt);
    for (int64_t t = 0; t < length; ++t) {
      request.tokens.push_back(text[static_cast<size_t>(t < shared ? beginning + t : own + t)]);
    }
    request.generate = GreedyOptions(1 + below(longest_answer));
    request.generate.ignore_eos = i % 5 != 0;
    SamplingOptions& sampling = request.generate.sampling;
    if (i % 2 == 1) {
      sampling.temperature = 0.9f;
      sampling.seed = random();
      sampling.top_k = i % 4 == 1 ? 0 : 40;
      sampling.top_p = i % 3 == 0 ? 1.0f : 0.9f;
      sampling.min_p = i % 8 < 4 ? 0.0f : 0.02f;
    }
    if (i % 6 == 2) sampling.repeat_penalty = 1.2f;
    if (i % 6 == 3) sampling.frequency_penalty = 0.4f;
    if (i % 6 == 4) sampling.presence_penalty = 0.7f;
    if (i % 7 == 0) sampling.logit_bias = {{request.tokens[0], -5.0f}, {text[0], 2.0f}};
    request.top_logprobs = i % 4;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Answer> Serve(ServingEngine& serving, std::span<const ServingRequest> requests,
                          const RunLoadOptions& how) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(how.arrival_seed);
  if (how.arrival_seed > 0) std::shuffle(order.begin(), order.end(), random);
  std::vector<Answer> answers(requests.size());
  std::vector<std::unique_ptr<ServedRequest>> running(requests.size());
  // All at once: the engine's thread, which calls on_event, goes no further than the first event until all are there.
  const bool together = how.arrival_seed == 0 && !how.one_by_one;
  std::promise<void> all_submitted;
  const std::shared_future<void> gate = all_submitted.get_future().share();
  for (const size_t i : order) {
    auto submitted =
        serving.Submit(requests[i], together ? [gate] { gate.wait(); } : std::function<void()>());
    if (!submitted.ok()) {
      answers[i].error = submitted.status();
      continue;
    }
    running[i] = std::move(*submitted);
    if (how.one_by_one) answers[i] = AnswerOf(*running[i]);
    if (how.arrival_seed > 0 && random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    }
  }
  all_submitted.set_value();
  for (size_t i = 0; i < running.size() && !how.one_by_one; ++i) {
    if (running[i] != nullptr) answers[i] = AnswerOf(*running[i]);
  }
  return answers;
}

}  // namespace holdfast
