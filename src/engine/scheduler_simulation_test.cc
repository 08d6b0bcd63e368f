// The scheduler, the pool and the index under random load. A sample of seeds; --seeds=100000 is the full run, --seed=N
// where it begins. A failure prints the line that repeats it.
#include "engine/scheduler_simulation.h"

#include <charconv>
#include <iostream>
#include <string_view>

#include <gtest/gtest.h>

#include "simd/testing_effort.h"

namespace holdfast::testing {
namespace {

struct Flags {
  int64_t seeds = Rounds(400);
  uint64_t seed = 1;
};

Flags& TheFlags() {
  static Flags flags;
  return flags;
}

TEST(SchedulerSimulation, NothingLeaksNothingOverflowsAndEveryAnswerIsTheOneAlone) {
  SimulationCounts counts;
  for (int64_t i = 0; i < TheFlags().seeds; ++i) {
    const uint64_t seed = TheFlags().seed + static_cast<uint64_t>(i);
    const auto wrong = Simulate(seed, counts);
    ASSERT_FALSE(wrong.has_value()) << *wrong
                                    << "\nrepeat: scheduler_simulation_test --seeds=1 --seed=" << seed;
  }
  std::cout << counts.requests << " requests, " << counts.steps << " steps, " << counts.answers
            << " answers, " << counts.hits << " hits of " << counts.reused_tokens << " tokens, "
            << counts.waits_for_prefix << " waits for a prefix, " << counts.preemptions << " preemptions, "
            << counts.evictions << " evictions, " << counts.cancelled << " cancelled or dropped, "
            << counts.refused << " refused, " << counts.aborted_steps << " failed steps\n";
  if (TheFlags().seeds < 50) return;
  // The worlds are what they are meant to be.
  EXPECT_GT(counts.answers, TheFlags().seeds);
  EXPECT_GT(counts.hits, TheFlags().seeds);
  EXPECT_GT(counts.waits_for_prefix, TheFlags().seeds / 10);
  EXPECT_GT(counts.preemptions, TheFlags().seeds / 10);
  EXPECT_GT(counts.evictions, TheFlags().seeds / 10);
  EXPECT_GT(counts.cancelled, TheFlags().seeds / 10);
  EXPECT_GT(counts.refused, 0);
  EXPECT_GT(counts.aborted_steps, 0);
}

}  // namespace

int Main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&](std::string_view flag, auto& value) {
      if (!arg.starts_with(flag)) return false;
      const auto parsed = std::from_chars(arg.data() + flag.size(), arg.data() + arg.size(), value);
      return parsed.ec == std::errc() && parsed.ptr == arg.data() + arg.size();
    };
    if (!number("--seeds=", TheFlags().seeds) && !number("--seed=", TheFlags().seed)) {
      std::cerr << "unknown argument " << arg << "\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace holdfast::testing

int main(int argc, char** argv) {
  return holdfast::testing::Main(argc, argv);
}
