#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

// How long a thread that waits stays awake before it sleeps: longer than the serial work between two regions
// of a decode step, much shorter than the pause between two requests. It does not yield meanwhile: the
// scheduler may then run others for a whole slice, which lasts longer than many regions.
constexpr auto kSpin = std::chrono::microseconds(100);
// With more threads than cores a spinning thread keeps somebody from the core that he needs.
constexpr auto kCrowdedSpin = std::chrono::microseconds(5);
constexpr int kLooksPerClockRead = 32;
constexpr int32_t kMaxTasksPerRegion = int32_t{1} << 30;

void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Paces the looks at an atomic of a thread that waits for a short while.
class Spinner {
 public:
  // False once `limit` has passed since the first wait.
  bool Wait(Clock::duration limit) {
    CpuRelax();
    if (++looks_ % kLooksPerClockRead != 0) return true;
    const auto now = Clock::now();
    if (looks_ == kLooksPerClockRead) start_ = now;
    return now - start_ <= limit;
  }

 private:
  int64_t looks_ = 0;
  Clock::time_point start_;
};

int AvailableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Puts new threads on cores of their own, one after the other: the kernel may start two on one core and leave
// them there for seconds, at half the speed. Only where they start: each gets its creator's whole set back.
class StartingCores {
 public:
  StartingCores() {
    CPU_ZERO(&all_);
    if (sched_getaffinity(0, sizeof all_, &all_) != 0) return;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &all_)) cores_.push_back(core);
    }
    const auto here = std::find(cores_.begin(), cores_.end(), sched_getcpu());
    if (here != cores_.end()) std::rotate(cores_.begin(), here, cores_.end());
  }

  // Called by new thread number `thread`; the creator is number 0. A refusal costs nothing but the placement.
  void Take(int thread) const {
    if (cores_.size() < 2) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cores_[static_cast<size_t>(thread) % cores_.size()], &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof all_, &all_);
  }

 private:
  cpu_set_t all_;
  std::vector<int> cores_;  // the creator's first
};

}  // namespace

// A region is published in one word, `ticket`: its number in the high half and how many tasks nobody has
// claimed yet in the low half. A claim is a compare-and-swap that takes one from the low half. So a thread
// that was delayed between looking and claiming either claims a task of the very region it saw or fails, and
// nobody ever waits for a thread that has not claimed anything: a sleeping worker delays no region.
//
// task, tasks and first are plain: the caller writes them only while no task is claimed (completed == tasks),
// and others read them only after a claim, which the publishing store of `ticket` happens before.
struct ThreadPool::State {
  alignas(64) std::atomic<uint64_t> ticket{0};
  std::atomic<bool> stop{false};
  const TaskRef* task = nullptr;
  int64_t tasks = 0;
  int64_t first = 0;
  alignas(64) std::atomic<int32_t> completed{0};
  std::atomic<bool> caller_sleeps{false};
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<uint32_t> wake_count{0};
  Clock::duration spin = kSpin;
  int thread_count = 1;
  std::vector<std::thread> workers;

  static constexpr uint64_t kUnclaimedMask = 0xffffffffu;

  static bool HasTasks(uint64_t t) { return (t & kUnclaimedMask) != 0; }

  // Claims and runs tasks until none is left.
  void RunTasks(int thread) {
    int32_t ran = 0;
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while (HasTasks(seen)) {
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      const auto unclaimed = static_cast<int64_t>(seen & kUnclaimedMask);
      (*task)(first + tasks - unclaimed, thread);
      ++ran;
      seen = ticket.load(std::memory_order_acquire);
    }
    if (ran == 0) return;
    // From here on the caller may go on: nothing of the region is touched any more. Sequentially consistent,
    // as is AwaitCompletion: either the caller sees the count or we see it asleep.
    completed.fetch_add(ran, std::memory_order_seq_cst);
    if (caller_sleeps.load(std::memory_order_seq_cst)) completed.notify_one();
  }

  void AwaitCompletion(int32_t region_tasks) {
    Spinner spinner;
    int32_t done = completed.load(std::memory_order_acquire);
    while (done != region_tasks && spinner.Wait(spin)) done = completed.load(std::memory_order_acquire);
    if (done == region_tasks) return;
    caller_sleeps.store(true, std::memory_order_seq_cst);
    while ((done = completed.load(std::memory_order_seq_cst)) != region_tasks) {
      completed.wait(done, std::memory_order_seq_cst);
    }
    caller_sleeps.store(false, std::memory_order_relaxed);
  }

  void RunRegion(const TaskRef& region_task, int64_t region_first, int32_t region_tasks) {
    task = &region_task;
    tasks = region_tasks;
    first = region_first;
    completed.store(0, std::memory_order_relaxed);
    const uint64_t number = (ticket.load(std::memory_order_relaxed) >> 32) + 1;
    // Sequentially consistent, as are the worker's accesses in Sleep: either it sees the tasks or we see it
    // asleep.
    ticket.store((number << 32) | static_cast<uint64_t>(region_tasks), std::memory_order_seq_cst);
    Wake(region_tasks - 1);
    RunTasks(0);
    AwaitCompletion(region_tasks);
  }

  void Wake(int64_t wanted) {
    const int asleep = sleepers.load(std::memory_order_seq_cst);
    if (asleep == 0) return;
    wake_count.fetch_add(1, std::memory_order_seq_cst);
    if (wanted >= asleep) {
      wake_count.notify_all();
    } else {
      for (int64_t i = 0; i < wanted; ++i) wake_count.notify_one();
    }
  }

  void Sleep() {
    const uint32_t before = wake_count.load(std::memory_order_seq_cst);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    if (!HasTasks(ticket.load(std::memory_order_seq_cst)) && !stop.load(std::memory_order_seq_cst)) {
      wake_count.wait(before, std::memory_order_seq_cst);
    }
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }

  void Work(int thread) {
    Spinner spinner;
    while (!stop.load(std::memory_order_relaxed)) {
      if (HasTasks(ticket.load(std::memory_order_relaxed))) {
        RunTasks(thread);
        spinner = Spinner();
      } else if (!spinner.Wait(spin)) {
        Sleep();
        spinner = Spinner();
      }
    }
  }

  void StopAndJoin() {
    stop.store(true, std::memory_order_seq_cst);
    wake_count.fetch_add(1, std::memory_order_seq_cst);
    wake_count.notify_all();
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }
};

ThreadPool::ThreadPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

ThreadPool::~ThreadPool() {
  state_->StopAndJoin();
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    return InvalidArgument("thread pool: threads " + std::to_string(threads) +
                           " is not within 0 (one a core) to " + std::to_string(kMaxThreads));
  }
  const int cores = AvailableCores();
  if (threads == 0) threads = std::min(cores, kMaxThreads);
  auto state = std::make_unique<State>();
  State* s = state.get();
  s->thread_count = threads;
  if (threads > cores) s->spin = kCrowdedSpin;
  const auto starting = std::make_shared<const StartingCores>();
  for (int thread = 1; thread < threads; ++thread) {
    try {
      s->workers.emplace_back([s, thread, starting] {
        starting->Take(thread);
        s->Work(thread);
      });
    } catch (const std::system_error& e) {
      s->StopAndJoin();
      return ResourceExhausted("thread pool: starting thread " + std::to_string(thread) + " of " +
                               std::to_string(threads) + ": " + e.what());
    }
  }
  return std::unique_ptr<ThreadPool>(new ThreadPool(std::move(state)));
}

int ThreadPool::threads() const {
  return state_->thread_count;
}

void ThreadPool::ParallelFor(int64_t tasks, TaskRef task) {
  if (tasks == 1 || state_->thread_count == 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i, 0);
    return;
  }
  for (int64_t first = 0; first < tasks; first += kMaxTasksPerRegion) {
    state_->RunRegion(task, first,
                      static_cast<int32_t>(std::min<int64_t>(tasks - first, kMaxTasksPerRegion)));
  }
}

}  // namespace holdfast
