#include "engine/scheduler_simulation.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine/scheduler.h"
#include "engine/scheduler_testing.h"
#include "pool/cache_pool.h"

namespace holdfast::testing {
namespace {

constexpr int64_t kMostSteps = 100'000;

// Four keys in all: nearly every block collides with another.
BlockKey CollidingKey(const BlockKey& parent, std::span<const int32_t> tokens) {
  BlockKey key = {};
  key[0] = ChainBlockKey(parent, tokens)[0] & std::byte{3};
  return key;
}

// What a seed decides before anything runs.
struct World {
  PoolOptions pool;
  SchedulerOptions scheduler;
  std::vector<std::vector<int32_t>> beginnings;
  std::vector<std::string> tenants;
  int64_t requests = 0;
  int64_t arrival_steps = 0;  // they arrive within so many
  int64_t abort_one_in = 0;   // steps; 0: none fails
  int64_t quit_one_in = 0;    // requests that are cancelled or dropped at some time
  int64_t deadline_one_in = 0;
};

std::vector<int32_t> RandomTokens(Dice& dice, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(dice.Between(1, 3)));
  return tokens;
}

CacheConfig RandomCache(Dice& dice) {
  const LayoutConfig full = {};
  const LayoutConfig window = {.id = LayoutId::kWindow, .window_tokens = dice.Between(1, 60)};
  const LayoutConfig sinks = {
      .id = LayoutId::kWindow, .window_tokens = dice.Between(8, 40), .sink_tokens = dice.Between(1, 20)};
  const auto layouts = dice.Pick<std::vector<LayoutConfig>>(
      {{full}, {full}, {full, window}, {window, full}, {window}, {full, sinks}});
  return PretendConfig(layouts, dice.OneIn(4), dice.OneIn(2) ? 16 : 32, dice.Between(40, 400),
                       static_cast<int>(dice.Pick<int64_t>({0, 4, 16})));
}

World RandomWorld(Dice& dice) {
  World world;
  world.pool.cache = RandomCache(dice);
  const int64_t context = world.pool.cache.max_context;
  const int64_t whole = PlanCache(world.pool.cache, context)->total_bytes();
  // In tenths of a whole sequence.
  if (dice.OneIn(2)) world.pool.budget_bytes = whole * dice.Between(5, 25) / 10;
  if (dice.OneIn(2)) world.pool.budget_tokens = context * dice.Between(5, 20) / 10;
  world.pool.scratch_bytes = dice.Between(0, 1) * 1000;
  world.pool.share_prefixes = !dice.OneIn(8);
  world.pool.prefix_ttl = dice.Pick<int64_t>({0, 0, 3, 40});
  if (dice.OneIn(5)) world.pool.key = CollidingKey;
  world.scheduler.max_running = static_cast<int>(dice.Between(1, 6));
  world.pool.max_sequences = world.scheduler.max_running;
  world.scheduler.max_queued = static_cast<int>(dice.Pick<int64_t>({0, 3, 64, 64, 64, 64}));
  world.scheduler.step_tokens = static_cast<int>(dice.Pick<int64_t>({7, 16, 50, 512}));
  world.scheduler.decode_liability_tokens = dice.Pick<int64_t>({0, 0, 1, 16, 256});
  world.scheduler.min_shared_tokens = dice.Pick<int64_t>({1, 16, 16, 64});
  world.beginnings.emplace_back();
  for (int64_t i = dice.Between(1, 5); i > 0; --i) {  // each goes on from one that is there
    std::vector<int32_t> tokens = dice.Pick(world.beginnings);
    const std::vector<int32_t> more = RandomTokens(dice, dice.Between(1, context / 5));
    tokens.insert(tokens.end(), more.begin(), more.end());
    world.beginnings.push_back(std::move(tokens));
  }
  world.tenants = dice.OneIn(2) ? std::vector<std::string>{""} : std::vector<std::string>{"a", "b"};
  world.requests = dice.Between(2, 24);
  world.arrival_steps = dice.Pick<int64_t>({0, 0, 20, 150});
  world.abort_one_in = dice.Pick<int64_t>({0, 0, 20});
  world.quit_one_in = dice.Pick<int64_t>({0, 6, 2});
  world.deadline_one_in = dice.Pick<int64_t>({0, 0, 6});
  return world;
}

// A request as the simulation follows it.
struct Followed {
  ScheduledRequest asked;
  int64_t arrives = 0;
  int64_t quits = -1;  // the step of it
  bool drops = false;  // instead of being cancelled
  bool cancelled = false;
  bool may_be_cut = false;  // its answer may end early
  RequestId id = RequestId::kNone;
  std::vector<int32_t> drawn;
  FinishReason finish = FinishReason::kNone;
  std::optional<PretendText> text;
  bool checked_reuse = false;  // of its present admission
  bool pending = false;        // a token was drawn that is not computed yet
};

class Simulation {
 public:
  Simulation(uint64_t seed, SimulationCounts& counts)
      : dice_(seed), counts_(counts), world_(RandomWorld(dice_)) {}
  std::optional<std::string> Run();

 private:
  bool CreatePool();
  void Invent();
  std::string Arrive();
  int64_t CountStaying() const;
  std::string Quit(bool in_step);
  std::string Step();
  std::string CheckPlan(const ScheduledStep& step, const std::map<RequestId, SequenceHandle>& before);
  std::string Compute(const ScheduledStep& step);
  std::string DrawTokens(const ScheduledStep& step);
  std::string CheckPool() const;
  std::string CheckOldest();
  std::string CheckAnswer(const Followed& request) const;
  std::string Finish(Followed& request, FinishReason reason);
  std::string CheckNothingLeft();
  int64_t WorkLeft() const;

  Dice dice_;
  SimulationCounts& counts_;
  World world_;
  std::unique_ptr<CachePool> pool_;
  std::unique_ptr<Scheduler> scheduler_;
  int64_t longest_ = 0;
  std::vector<Followed> requests_;
  size_t arrived_ = 0;
  std::map<RequestId, Followed*> open_;
  std::set<RequestId> waited_;
  int64_t now_ = 0;
  RequestId oldest_ = RequestId::kNone;
  int64_t oldest_until_ = 0;
};

// A budget that does not hold even one block a layer is doubled until it does.
bool Simulation::CreatePool() {
  for (int i = 0; i < 20; ++i) {
    Result<std::unique_ptr<CachePool>> pool = CachePool::Create(world_.pool);
    if (pool.ok()) {
      pool_ = std::move(pool).value();
      break;
    }
    if (pool.status().code() != StatusCode::kResourceExhausted) return false;
    world_.pool.budget_bytes *= 2;
    world_.pool.budget_tokens *= 2;
  }
  if (pool_ == nullptr) return false;
  while (pool_->CheckEverFits(longest_ + 1).ok()) ++longest_;
  scheduler_ = std::make_unique<Scheduler>(*pool_, world_.scheduler);
  return true;
}

void Simulation::Invent() {
  for (int64_t i = 0; i < world_.requests; ++i) {
    Followed request;
    if (i > 0 && dice_.OneIn(4)) {  // one of several answers to the same prompt
      request.asked = requests_.back().asked;
      request.arrives = requests_.back().arrives;
    } else {
      request.asked.tokens = dice_.Pick(world_.beginnings);
      const std::vector<int32_t> own = RandomTokens(dice_, dice_.Pick<int64_t>({1, 3, 20, 70}));
      request.asked.tokens.insert(request.asked.tokens.end(), own.begin(), own.end());
      request.asked.max_tokens = dice_.Pick<int64_t>({-1, -1, 0, 1, 20, 90});
      request.asked.identity.name_space = dice_.Pick(world_.tenants);
      request.arrives = dice_.Between(0, world_.arrival_steps);
    }
    if (world_.quit_one_in > 0 && dice_.OneIn(world_.quit_one_in)) {
      request.quits = request.arrives + dice_.Between(0, 60);
      request.drops = dice_.OneIn(4);
    }
    if (world_.deadline_one_in > 0 && dice_.OneIn(world_.deadline_one_in)) {
      request.asked.deadline = request.arrives + dice_.Between(1, 80);
    }
    request.asked.reuses = !dice_.OneIn(8);
    request.may_be_cut = request.quits >= 0 || request.asked.deadline != 0;
    requests_.push_back(std::move(request));
  }
  std::stable_sort(requests_.begin(), requests_.end(),
                   [](const Followed& a, const Followed& b) { return a.arrives < b.arrives; });
}

// Requests that the next Plan does not end because they were cancelled.
int64_t Simulation::CountStaying() const {
  const auto views = scheduler_->requests();
  return std::count_if(views.begin(), views.end(),
                       [this](const auto& view) { return !open_.at(view.id)->cancelled; });
}

std::string Simulation::Arrive() {
  for (; arrived_ < requests_.size() && requests_[arrived_].arrives <= now_; ++arrived_) {
    Followed& request = requests_[arrived_];
    const auto prompt = static_cast<int64_t>(request.asked.tokens.size());
    const int64_t answer = request.asked.max_tokens < 0 ? 1 : request.asked.max_tokens;
    const bool too_long = !pool_->CheckEverFits(prompt + answer).ok();
    const bool full = !scheduler_->CheckRoom(1).ok();
    if (full != (CountStaying() >= scheduler_->most_requests())) return "submit: full, or not, by mistake";
    const Result<RequestId> id = scheduler_->Submit(request.asked, now_);
    const StatusCode wanted = too_long ? StatusCode::kOutOfRange
                              : full   ? StatusCode::kResourceExhausted
                                       : StatusCode::kOk;
    const StatusCode code = id.ok() ? StatusCode::kOk : id.status().code();
    if (code != wanted) return "submit: " + id.status().message();
    ++counts_.requests;
    counts_.refused += !id.ok();
    if (!id.ok()) continue;
    request.id = *id;
    request.text.emplace(request.asked.identity, request.asked.tokens);
    open_[*id] = &request;
  }
  return {};
}

std::string Simulation::Quit(bool in_step) {
  for (size_t i = 0; i < arrived_; ++i) {
    Followed& request = requests_[i];
    if (request.quits < 0 || request.quits > now_ || !open_.contains(request.id)) continue;
    if (in_step != (request.quits % 2 == 0)) continue;
    ++counts_.cancelled;
    request.quits = -1;
    if (request.drops) {
      scheduler_->Drop(request.id, now_);
      const std::string wrong = Finish(request, FinishReason::kCancelled);
      if (!wrong.empty()) return wrong;
    } else {
      scheduler_->Cancel(request.id);
      request.cancelled = true;
    }
  }
  return {};
}

std::string Simulation::Finish(Followed& request, FinishReason reason) {
  request.finish = reason;
  open_.erase(request.id);
  return CheckAnswer(request);
}

std::string Simulation::CheckAnswer(const Followed& request) const {
  const PretendAnswer alone =
      AnswerAlone(request.asked.identity, request.asked.tokens, request.asked.max_tokens, longest_);
  const bool cut = request.finish == FinishReason::kCancelled;
  const bool same = cut ? request.drawn.size() <= alone.tokens.size() &&
                              std::equal(request.drawn.begin(), request.drawn.end(), alone.tokens.begin())
                        : request.drawn == alone.tokens && request.finish == alone.finish;
  if (same && (!cut || request.may_be_cut)) return {};
  return "request " + std::to_string(static_cast<uint64_t>(request.id)) + " got " +
         std::to_string(request.drawn.size()) + " tokens and " +
         std::string(FinishReasonName(request.finish)) + ", alone " + std::to_string(alone.tokens.size()) +
         " and " + std::string(FinishReasonName(alone.finish));
}

// The tokens that the oldest and those who run may still bring, computed anew.
int64_t Simulation::WorkLeft() const {
  int64_t tokens = 0;
  for (const Scheduler::View& view : scheduler_->requests()) {
    if (view.handle.id == SequenceId::kNone && view.id != open_.begin()->first) continue;
    const auto found = open_.find(view.id);
    if (found == open_.end()) continue;
    const ScheduledRequest& asked = found->second->asked;
    tokens += asked.max_tokens < 0 ? longest_ : static_cast<int64_t>(asked.tokens.size()) + asked.max_tokens;
  }
  return tokens;
}

// Those who run when a request becomes the oldest may end first; nobody comes in between, and every step brings a token
// of one of them. A step that fails counts for nothing.
std::string Simulation::CheckOldest() {
  if (open_.empty()) return {};
  if (open_.begin()->first != oldest_) {
    oldest_ = open_.begin()->first;
    oldest_until_ = now_ + WorkLeft() + 3;
  }
  if (now_ <= oldest_until_) return {};
  return "request " + std::to_string(static_cast<uint64_t>(oldest_)) + " starves";
}

std::string Simulation::CheckPool() const {
  const Status account = pool_->CheckInvariants();
  if (!account.ok()) return account.message();
  if (pool_->budget_bytes() > 0 && pool_->memory_usage_bytes() > pool_->budget_bytes()) {
    return std::to_string(pool_->memory_usage_bytes()) + " bytes, the budget is " +
           std::to_string(pool_->budget_bytes());
  }
  const BlockCounts blocks = pool_->blocks();
  if (blocks.free + blocks.live + blocks.idle != blocks.total) return "blocks do not add up";
  const int64_t block = world_.pool.cache.block_tokens;
  int64_t tokens = 0, running = 0;
  for (const Scheduler::View& view : scheduler_->requests()) {
    if (view.handle.id == SequenceId::kNone) continue;
    ++running;
    tokens += (pool_->cache(view.handle).value()->length() + block - 1) / block * block;
  }
  if (world_.pool.budget_tokens > 0 && tokens > (world_.pool.budget_tokens + block - 1) / block * block) {
    return std::to_string(tokens) + " tokens, the budget is " + std::to_string(world_.pool.budget_tokens);
  }
  if (running != scheduler_->running() || running != pool_->open_sequences())
    return "sequences do not add up";
  return running <= world_.scheduler.max_running ? "" : "too many run";
}

// before: who ran before the plan.
std::string Simulation::CheckPlan(const ScheduledStep& step,
                                  const std::map<RequestId, SequenceHandle>& before) {
  std::map<RequestId, Scheduler::View> after;
  for (const Scheduler::View& view : scheduler_->requests()) {
    after[view.id] = view;
    if (view.state == SequenceState::kWaitingForPrefix && waited_.insert(view.id).second) {
      ++counts_.waits_for_prefix;
    }
  }
  std::set<RequestId> in_step;
  int64_t tokens = 0;
  for (const ScheduledSlice& slice : step.slices) {
    if (!in_step.insert(slice.id).second) return "a request has two slices";
    tokens += slice.tokens;
  }
  if (tokens > world_.scheduler.step_tokens) return "the step has " + std::to_string(tokens) + " tokens";
  RequestId oldest_out{~uint64_t{0}}, youngest_stayed = RequestId::kNone;
  for (const auto& [id, handle] : before) {
    const auto found = after.find(id);
    if (found == after.end()) continue;  // ended
    if (found->second.handle == handle) {
      youngest_stayed = std::max(youngest_stayed, id);
      if (open_[id]->pending && !in_step.contains(id)) return "a request that decodes is left out";
    } else {
      oldest_out = std::min(oldest_out, id);
      open_[id]->checked_reuse = open_[id]->pending = false;
    }
  }
  if (oldest_out < youngest_stayed) return "an older request was preempted for a younger one";
  return {};
}

std::string Simulation::Compute(const ScheduledStep& step) {
  for (const ScheduledSlice& slice : step.slices) {
    const auto found = open_.find(slice.id);
    if (found == open_.end()) continue;  // dropped since
    Followed& request = *found->second;
    const Result<SequenceCache*> cache = pool_->cache(slice.handle);
    if (!cache.ok()) return cache.status().message();
    const int64_t length = (*cache)->length();
    if (!std::exchange(request.checked_reuse, true) && length > 0) {
      ++counts_.hits;
      counts_.reused_tokens += length;
      if (const auto wrong = request.text->WrongRow(**cache)) return "reused: " + *wrong;
    }
    const std::span<const int32_t> input = scheduler_->input(slice);
    const auto tokens = request.text->tokens().subspan(static_cast<size_t>(length));
    if (static_cast<int64_t>(input.size()) != slice.tokens || input.size() > tokens.size() ||
        !std::equal(input.begin(), input.end(), tokens.begin())) {
      return "the input is not what comes next";
    }
    const Status computed = request.text->ComputeRows(**cache, slice.tokens);
    if (!computed.ok()) return computed.message();
    if (!dice_.OneIn(4)) continue;
    if (const auto wrong = request.text->WrongRow(**cache)) return *wrong;
  }
  if (pool_->budget_bytes() > 0 && pool_->memory_usage_bytes() > pool_->budget_bytes()) {
    return "in the step: " + std::to_string(pool_->memory_usage_bytes()) + " bytes, the budget is " +
           std::to_string(pool_->budget_bytes());
  }
  return {};
}

std::string Simulation::DrawTokens(const ScheduledStep& step) {
  for (const ScheduledSlice& slice : step.slices) {
    const auto found = open_.find(slice.id);
    if (found == open_.end()) continue;
    Followed& request = *found->second;
    request.pending = false;
    if (!slice.wants_token) continue;
    const Result<SequenceCache*> cache = pool_->cache(slice.handle);
    if (!cache.ok() || (*cache)->length() != request.text->size()) return "a token is wanted too early";
    if (const auto wrong = request.text->WrongRow(**cache)) return *wrong;
    const int32_t token = request.text->Next();
    request.text->Append(token);
    request.drawn.push_back(token);
    request.pending = true;
    const FinishReason reason = scheduler_->Draw(slice.id, token, PretendText::IsEnd(token), now_);
    if (reason == FinishReason::kNone) continue;
    ++counts_.answers;
    const std::string wrong = Finish(request, reason);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string Simulation::Step() {
  std::map<RequestId, SequenceHandle> before;
  for (const Scheduler::View& view : scheduler_->requests()) {
    if (view.handle.id != SequenceId::kNone) before[view.id] = view.handle;
  }
  const Result<ScheduledStep> step = scheduler_->Plan(now_);
  if (!step.ok()) return "plan: " + step.status().message();
  for (const ScheduledStep::Ended& ended : step->ended) {
    if (!ended.error.ok()) return "ended: " + ended.error.message();
    const std::string wrong = Finish(*open_.at(ended.id), ended.reason);
    if (!wrong.empty()) return wrong;
  }
  std::string wrong = CheckPlan(*step, before);
  if (!wrong.empty()) return wrong;
  if (world_.abort_one_in > 0 && dice_.OneIn(world_.abort_one_in)) {
    ++counts_.aborted_steps;
    ++oldest_until_;
    scheduler_->Aborted(*step);
    return CheckPool();
  }
  wrong = Compute(*step);
  if (wrong.empty()) wrong = Quit(true);
  if (!wrong.empty()) return wrong;
  scheduler_->Committed(*step, now_);
  wrong = CheckPool();
  if (wrong.empty()) wrong = DrawTokens(*step);
  return wrong.empty() ? CheckPool() : wrong;
}

std::string Simulation::CheckNothingLeft() {
  pool_->DropIdle();
  const BlockCounts blocks = pool_->blocks();
  if (blocks.live != 0 || blocks.idle != 0 || blocks.free != blocks.total || pool_->open_sequences() != 0) {
    return std::to_string(blocks.live) + " blocks live and " + std::to_string(blocks.idle) +
           " idle although nobody is left";
  }
  return CheckPool();
}

std::optional<std::string> Simulation::Run() {
  if (!CreatePool()) return "no pool";
  Invent();
  std::string wrong;
  for (; wrong.empty() && (arrived_ < requests_.size() || !open_.empty()); ++now_) {
    wrong = Arrive();
    if (wrong.empty()) wrong = Quit(false);
    if (wrong.empty()) wrong = CheckOldest();
    if (wrong.empty()) wrong = Step();
    ++counts_.steps;
    if (now_ > kMostSteps) wrong = "it does not end";
  }
  if (wrong.empty()) wrong = CheckNothingLeft();
  counts_.preemptions += scheduler_->preemptions();
  counts_.evictions += pool_->evictions();
  if (wrong.empty()) return std::nullopt;
  return "step " + std::to_string(now_ - 1) + ": " + wrong;
}

}  // namespace

std::optional<std::string> Simulate(uint64_t seed, SimulationCounts& counts) {
  return Simulation(seed, counts).Run();
}

}  // namespace holdfast::testing
