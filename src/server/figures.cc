#include "server/figures.h"

#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace holdfast::server {
namespace {

constexpr SequenceState kStates[] = {SequenceState::kQueued, SequenceState::kWaitingForPrefix,
                                     SequenceState::kPrefill, SequenceState::kDecode,
                                     SequenceState::kPreempted};
constexpr FinishReason kReasons[] = {FinishReason::kStop, FinishReason::kLength, FinishReason::kContext,
                                     FinishReason::kCancelled};

std::string NumberText(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

class Exposition {
 public:
  // Every sample that follows belongs to this metric, until the next one.
  void Begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void Sample(double value) { text_ += name_ + " " + NumberText(value) + "\n"; }
  void Sample(const char* label, std::string_view label_value, double value) {
    text_ += name_ + "{" + label + "=\"" + std::string(label_value) + "\"} " + NumberText(value) + "\n";
  }
  void One(const char* name, const char* type, const char* help, int64_t value) {
    Begin(name, type, help);
    Sample(static_cast<double>(value));
  }
  void AddHistogram(const char* name, const char* help, const Histogram& histogram) {
    Begin(name, "histogram", help);
    int64_t cumulative = 0;
    for (size_t i = 0; i < histogram.bounds.size() && i < histogram.counts.size(); ++i) {
      cumulative += histogram.counts[i];
      Bucket(NumberText(histogram.bounds[i]), cumulative);
    }
    if (histogram.counts.size() > histogram.bounds.size()) cumulative += histogram.counts.back();
    Bucket("+Inf", cumulative);
    text_ += name_ + "_sum " + NumberText(histogram.sum) + "\n";
    text_ += name_ + "_count " + std::to_string(cumulative) + "\n";
  }
  std::string Take() { return std::move(text_); }

 private:
  void Bucket(const std::string& bound, int64_t count) {
    text_ += name_ + "_bucket{le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  }

  std::string name_, text_;
};

void AddServing(const ServingMetrics& m, Exposition* out) {
  out->One("holdfast_prompt_tokens_total", "counter", "Tokens of prompts.", m.prompt_tokens);
  out->One("holdfast_generated_tokens_total", "counter", "Tokens of answers.", m.generated_tokens);
  out->One("holdfast_steps_total", "counter", "Forward passes.", m.steps);
  out->Begin("holdfast_requests_finished_total", "counter", "Requests that have ended, by how.");
  for (const FinishReason reason : kReasons) {
    out->Sample("reason", FinishReasonName(reason),
                static_cast<double>(m.requests_finished[static_cast<size_t>(reason)]));
  }
  out->One("holdfast_requests_refused_total", "counter", "Requests that were refused before any work.",
           m.requests_refused);
  out->One("holdfast_requests_queued", "gauge", "Requests that wait to be started.", m.queued);
  out->One("holdfast_requests_running", "gauge", "Requests that are in the running batch.", m.running);
  out->AddHistogram("holdfast_step_tokens", "Tokens of a forward pass.", m.batch_tokens);
  out->AddHistogram("holdfast_time_to_first_token_seconds", "From submission to the first token.",
                    m.ttft_seconds);
  out->AddHistogram("holdfast_token_gap_seconds", "Between two tokens of an answer.", m.token_gap_seconds);
}

void AddPool(const PoolSnapshot& pool, Exposition* out) {
  out->One("holdfast_cache_budget_bytes", "gauge", "Ceiling on the cache's memory.", pool.budget_bytes);
  out->One("holdfast_cache_allocated_bytes", "gauge", "Rows, metadata, idle prefixes and scratch.",
           pool.allocated_bytes);
  out->One("holdfast_cache_scratch_bytes", "gauge", "Of the allocated bytes, scratch.", pool.scratch_bytes);
  out->Begin("holdfast_cache_blocks", "gauge", "Blocks by state; their sum is the pool's.");
  out->Sample("state", "free", static_cast<double>(pool.blocks.free));
  out->Sample("state", "live", static_cast<double>(pool.blocks.live));
  out->Sample("state", "idle", static_cast<double>(pool.blocks.idle));
  int64_t sequences[std::size(kStates)] = {};
  for (const ServedSequence& sequence : pool.sequences) ++sequences[static_cast<size_t>(sequence.state)];
  out->Begin("holdfast_sequences", "gauge", "Requests by state.");
  for (const SequenceState state : kStates)
    out->Sample("state", SequenceStateName(state),
                static_cast<double>(sequences[static_cast<size_t>(state)]));
  out->One("holdfast_prefix_hits_total", "counter", "Requests that reused a prefix.", pool.hits);
  out->Begin("holdfast_prefix_misses_total", "counter",
             "Requests that could have reused more, by why they did not.");
  for (int cause = 1; cause < kMissCauses; ++cause) {
    out->Sample("cause", MissCauseName(static_cast<MissCause>(cause)),
                static_cast<double>(pool.misses[cause]));
  }
  out->One("holdfast_prefix_reused_tokens_total", "counter", "Prompt tokens that were not evaluated again.",
           pool.reused_tokens);
  out->One("holdfast_prefix_prompt_tokens_total", "counter", "Prompt tokens of requests that were started.",
           pool.prompt_tokens);
  out->One("holdfast_prefix_evictions_total", "counter", "Idle prefixes' blocks that were given up.",
           pool.evictions);
  out->One("holdfast_preemptions_total", "counter", "Running requests that had to give up their rows.",
           pool.preemptions);
}

void AddHttp(const HttpFigures& http, Exposition* out) {
  out->One("holdfast_http_connections", "gauge", "Open connections.", http.connections);
  out->One("holdfast_http_connections_total", "counter", "Connections that were accepted.",
           http.connections_total);
  out->One("holdfast_http_clients_left_total", "counter",
           "Clients that were gone before their answer was through.", http.clients_left);
  out->One("holdfast_http_body_bytes", "gauge", "Bytes of requests that are being read.", http.body_bytes);
  out->Begin("holdfast_http_responses_total", "counter", "Answers by status.");
  for (const auto& [status, count] : http.responses)
    out->Sample("code", std::to_string(status), static_cast<double>(count));
}

}  // namespace

std::string MetricsText(const ServingMetrics& metrics, const PoolSnapshot& pool, const HttpFigures& http) {
  Exposition out;
  AddServing(metrics, &out);
  AddPool(pool, &out);
  AddHttp(http, &out);
  return out.Take();
}

OrderedJson CacheJson(const PoolSnapshot& pool) {
  OrderedJson json;
  json["budget_bytes"] = pool.budget_bytes;
  json["allocated_bytes"] = pool.allocated_bytes;
  json["scratch_bytes"] = pool.scratch_bytes;
  json["blocks"] = {{"total", pool.blocks.total},
                    {"free", pool.blocks.free},
                    {"live", pool.blocks.live},
                    {"idle", pool.blocks.idle}};
  json["sequences"] = OrderedJson::array();
  for (const ServedSequence& sequence : pool.sequences) {
    json["sequences"].push_back({{"id", sequence.id},
                                 {"state", SequenceStateName(sequence.state)},
                                 {"tokens", sequence.tokens},
                                 {"blocks", sequence.blocks}});
  }
  json["hits"] = pool.hits;
  json["misses"] = OrderedJson::object();
  for (int cause = 1; cause < kMissCauses; ++cause)
    json["misses"][std::string(MissCauseName(static_cast<MissCause>(cause)))] = pool.misses[cause];
  json["reused_tokens"] = pool.reused_tokens;
  json["prompt_tokens"] = pool.prompt_tokens;
  json["evictions"] = pool.evictions;
  json["preemptions"] = pool.preemptions;
  return json;
}

}  // namespace holdfast::server
