// A fixed set of threads that run one parallel region at a time.
//
// A decode step of a small model is some 150 regions of 10 to 50 microseconds, so waking must cost about a
// microsecond: threads that wait spin for a short while and only then sleep. Which thread runs which
// task is never fixed, so a task's result must not depend on it.
#pragma once

#include <cstdint>
#include <memory>

#include "holdfast/status.h"

namespace holdfast {

// A non-owning reference to a callable void(int64_t task, int thread); valid while the callable lives.
class TaskRef {
 public:
  template <typename F>
  TaskRef(const F& f)  // NOLINT: implicit, so that a lambda can be passed as it is
      : object_(&f),
        call_([](const void* o, int64_t task, int thread) { (*static_cast<const F*>(o))(task, thread); }) {}
  void operator()(int64_t task, int thread) const { call_(object_, task, thread); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int);
};

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 256;

  // `threads` counts the calling thread; 1 starts none. 0 = one a core that this process may use.
  static Result<std::unique_ptr<ThreadPool>> Create(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Runs task(i, thread) once for every i in [0, tasks), thread in [0, threads()), and returns when all are
  // done; tasks are handed out one by one in ascending order. Tasks must not throw and must not call
  // ParallelFor on the same pool. One caller at a time.
  void ParallelFor(int64_t tasks, TaskRef task);

 private:
  struct State;
  explicit ThreadPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace holdfast
