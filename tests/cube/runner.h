// Runs a program in every storage and chunking at once, against the oracle.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attention/attend.h"
#include "base/thread_pool.h"
#include "program.h"

namespace holdfast::cube {

// Kept between programs: threads and attention's scratch.
struct Machine {
  std::unique_ptr<ThreadPool> one_thread;
  std::unique_ptr<ThreadPool> two_threads;
  AttentionWorkspace workspace;
};

// What went wrong, or nothing. Checked after every operation, for every storage and chunking:
//  * outputs: near the oracle's, and the same bits as the first storage's with whole appends, and as a cold
//  cache's;
//  * errors: refused operations say the right code and change nothing;
//  * bytes: allocated = plan, live = formula, and the arena holds what the caches report and nothing at the
//  end.
std::optional<std::string> RunProgram(const Program& program, Machine& machine);

// The smallest failing program found from this one, by leaving out and making less.
Program Shrink(Program program, Machine& machine);

}  // namespace holdfast::cube
