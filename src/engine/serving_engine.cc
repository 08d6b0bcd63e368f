#include "engine/serving_engine.h"

#include <string>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "engine/generate_options.h"
#include "engine/model_fingerprint.h"

namespace holdfast {
namespace {

Status ValidateRequest(const ServingRequest& request, int64_t vocab_size, int64_t max_context) {
  HF_RETURN_IF_ERROR(ValidateGenerate(request.tokens, request.generate, vocab_size, max_context));
  if (request.top_logprobs < -1 || request.top_logprobs > kMaxTopLogprobs) {
    return InvalidArgument("submit: top_logprobs is " + std::to_string(request.top_logprobs) +
                           ", must be in [-1, " + std::to_string(kMaxTopLogprobs) + "]");
  }
  if (request.prompt_logprobs && request.top_logprobs < 0) {
    return InvalidArgument("submit: prompt_logprobs needs top_logprobs of at least 0");
  }
  if (request.deadline_ms < 0) {
    return InvalidArgument("submit: deadline_ms is " + std::to_string(request.deadline_ms) +
                           ", must be >= 0");
  }
  return OkStatus();
}

}  // namespace

std::string_view SequenceStateName(SequenceState state) {
  switch (state) {
    case SequenceState::kQueued:
      return "queued";
    case SequenceState::kWaitingForPrefix:
      return "waiting_for_prefix";
    case SequenceState::kPrefill:
      return "prefill";
    case SequenceState::kDecode:
      return "decode";
    case SequenceState::kPreempted:
      return "preempted";
  }
  return "";
}

Result<std::unique_ptr<ServingEngine>> ServingEngine::Create(Engine& engine, const ServingOptions& options) {
  auto* core = dynamic_cast<EngineCore*>(&engine);
  if (core == nullptr) return InvalidArgument("serving: the engine is none that Engine::Load made");
  HF_RETURN_IF_ERROR(ValidateServing(options));
  HF_ASSIGN_OR_RETURN(EngineCore::ServingClaim claim, core->ClaimForServing());
  CacheOptions cache = options.cache;
  cache.storage = StorageId::kPaged;
  HF_ASSIGN_OR_RETURN(const CacheConfig config, core->MakeCacheConfig(cache));
  HF_ASSIGN_OR_RETURN(const Sha256 model, DigestOfModel(core->info().path));
  HF_ASSIGN_OR_RETURN(ServingScratch scratch, ServingScratch::Create(*core, config, options));
  HF_ASSIGN_OR_RETURN(auto pool, MakeServingPool(config, options, scratch.limit_bytes()));
  auto loop = std::make_shared<ServingLoop>(*core, options, model, std::move(scratch), std::move(pool));
  try {
    return std::unique_ptr<ServingEngine>(
        std::make_unique<ServingEngineState>(std::move(claim), std::move(loop)));
  } catch (const std::system_error& error) {
    return ResourceExhausted(std::string("serving: no thread to step requests: ") + error.what());
  }
}

ServingEngineState::ServingEngineState(EngineCore::ServingClaim core, std::shared_ptr<ServingLoop> loop)
    : core_(std::move(core)), loop_(std::move(loop)), thread_([this] { loop_->Run(); }) {}

ServingEngineState::~ServingEngineState() {
  loop_->Stop();
  thread_.join();
}

Result<std::unique_ptr<ServedRequest>> ServingEngineState::Submit(const ServingRequest& request,
                                                                  std::function<void()> on_event) {
  HF_ASSIGN_OR_RETURN(auto served, SubmitTogether({&request, 1}, std::move(on_event)));
  return std::move(served.front());
}

Result<std::vector<std::unique_ptr<ServedRequest>>> ServingEngineState::SubmitTogether(
    std::span<const ServingRequest> requests, std::function<void()> on_event) {
  Status valid = OkStatus();
  for (size_t i = 0; i < requests.size() && valid.ok(); ++i) {
    valid = ValidateRequest(requests[i], core_->info().vocab_size, loop_->config().max_context);
  }
  auto submitted = valid.ok() ? loop_->Submit(requests, std::move(on_event))
                              : Result<std::vector<ServingLoop::Submitted>>(valid);
  if (!submitted.ok()) {
    loop_->Refused(static_cast<int64_t>(requests.size()));
    return submitted.status();
  }
  std::vector<std::unique_ptr<ServedRequest>> served;
  for (size_t i = 0; i < requests.size(); ++i) {
    ServingLoop::Submitted& one = (*submitted)[i];
    served.push_back(std::make_unique<ServedRequestState>(one.id, std::move(one.channel), loop_,
                                                          core_->tokenizer(), requests[i].generate.stop));
  }
  return served;
}

}  // namespace holdfast
