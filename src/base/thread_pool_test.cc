#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace holdfast {
namespace {

std::unique_ptr<ThreadPool> MustCreate(int threads) {
  auto pool = ThreadPool::Create(threads);
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(pool).value();
}

class ThreadPoolTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<ThreadPool> pool_ = MustCreate(GetParam());
};

TEST_P(ThreadPoolTest, RunsEveryTaskOnceOnAThreadOfItsOwn) {
  EXPECT_EQ(pool_->threads(), GetParam());
  for (const int64_t tasks : {0, 1, 2, 3, 17, 1000}) {
    std::vector<int> runs(
        static_cast<size_t>(tasks));  // plain ints: a task's writes are seen after the region
    std::vector<int> per_thread(static_cast<size_t>(pool_->threads()));
    pool_->ParallelFor(tasks, [&](int64_t task, int thread) {
      ++runs[static_cast<size_t>(task)];
      ++per_thread[static_cast<size_t>(thread)];  // not shared with another running thread
    });
    for (const int count : runs) EXPECT_EQ(count, 1);
    EXPECT_EQ(std::accumulate(per_thread.begin(), per_thread.end(), int64_t{0}), tasks);
  }
}

TEST_P(ThreadPoolTest, ManySmallRegionsSeeEachOthersResults) {
  constexpr int64_t kTasks = 7;
  std::vector<int64_t> values(kTasks);
  constexpr int kRegions = 5000;
  for (int region = 0; region < kRegions; ++region) {
    pool_->ParallelFor(kTasks, [&](int64_t task, int) {
      // Reads what another thread may have written in the region before.
      values[static_cast<size_t>(task)] += 1 + (values[static_cast<size_t>(task)] - region);
    });
  }
  for (const int64_t value : values) EXPECT_EQ(value, kRegions);
}

TEST_P(ThreadPoolTest, SleepingWorkersWakeForTheNextRegion) {
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than workers stay awake
    std::atomic<int> ran{0};
    pool_->ParallelFor(GetParam() * 2, [&](int64_t, int) { ran.fetch_add(1); });
    EXPECT_EQ(ran.load(), GetParam() * 2);
  }
}

TEST_P(ThreadPoolTest, TasksOfOneThreadAscend) {
  std::vector<int64_t> last(static_cast<size_t>(pool_->threads()), -1);
  std::atomic<bool> ascending{true};
  pool_->ParallelFor(2000, [&](int64_t task, int thread) {
    int64_t& before = last[static_cast<size_t>(thread)];
    if (task <= before) ascending = false;
    before = task;
  });
  EXPECT_TRUE(ascending.load());
}

// 16 and 64 threads are more than the cores of the machines this runs on: nobody may starve.
INSTANTIATE_TEST_SUITE_P(, ThreadPoolTest, testing::Values(1, 2, 3, 16, 64));

TEST(ThreadPoolCreateTest, AllThreadsTakePartInALongRegion) {
  const auto pool = MustCreate(3);
  std::atomic<int> inside{0};
  // Each task waits until three run at once: it ends only if three threads run it.
  pool->ParallelFor(3, [&](int64_t, int) {
    inside.fetch_add(1);
    while (inside.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 3);
}

TEST(ThreadPoolCreateTest, PoolsMayRunSideBySide) {
  std::atomic<int64_t> total{0};
  const auto use = [&total] {
    const auto pool = MustCreate(2);
    for (int i = 0; i < 500; ++i) pool->ParallelFor(5, [&](int64_t task, int) { total.fetch_add(task); });
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(total.load(), 2 * 500 * 10);
}

TEST(ThreadPoolCreateTest, APoolMayBeDestroyedUnused) {
  for (int i = 0; i < 50; ++i) MustCreate(4);
}

TEST(ThreadPoolCreateTest, ZeroMeansTheCoresThatThisProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(MustCreate(0)->threads(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(MustCreate(0)->threads(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(ThreadPoolCreateTest, CountsOutOfRangeAreErrorsThatNameTheLimit) {
  for (const int threads : {-1, ThreadPool::kMaxThreads + 1}) {
    const auto pool = ThreadPool::Create(threads);
    ASSERT_EQ(pool.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(pool.status().message().find(std::to_string(threads)), std::string::npos)
        << pool.status().message();
    EXPECT_NE(pool.status().message().find("256"), std::string::npos) << pool.status().message();
  }
  EXPECT_EQ(MustCreate(ThreadPool::kMaxThreads)->threads(), ThreadPool::kMaxThreads);
}

}  // namespace
}  // namespace holdfast
