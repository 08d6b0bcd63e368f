// Random lives of a pool and its scheduler, one a seed: requests with common beginnings, tenants, cancels, deadlines,
// failing steps and budgets that are too small, over a model that takes no time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::testing {

// What the lives of several seeds had in them, so that a test can tell that they tried something.
struct SimulationCounts {
  int64_t steps = 0, requests = 0, answers = 0, preemptions = 0, evictions = 0;
  int64_t hits = 0, reused_tokens = 0, waits_for_prefix = 0, cancelled = 0, refused = 0, aborted_steps = 0;
};

// What went wrong, or nothing. Checked after every step:
//  * the pool's own account (CheckInvariants), bytes and reserved tokens within the budgets, blocks free + live + idle =
//    total;
//  * nobody who decodes is left out of a step, but for the youngest where room ran out;
//  * the oldest request ends within the work that was before it when it became the oldest;
//  * rows, shared ones too, are those that a cold cache would hold;
// and at its end of every request that it got the answer that it gets alone, and of the pool that nothing is left in it.
std::optional<std::string> Simulate(uint64_t seed, SimulationCounts& counts);

}  // namespace holdfast::testing
