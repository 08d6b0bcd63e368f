// Shares rows out over threads where they are enough work to pay for it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "base/thread_pool.h"

namespace holdfast {

// Values of a task: some ten microseconds of arithmetic, well above the microsecond it costs to hand out.
inline constexpr int64_t kValuesPerTask = 16384;

// run(row) for every row in [0, rows), `values` a row. One row, or few values, run on the calling thread.
template <typename Run>
void ForEachRow(int64_t rows, int64_t values, ThreadPool& pool, const Run& run) {
  const int64_t rows_per_task = std::max<int64_t>(1, kValuesPerTask / std::max<int64_t>(1, values));
  if (rows <= rows_per_task || rows == 1) {
    for (int64_t r = 0; r < rows; ++r) run(r);
    return;
  }
  pool.ParallelFor(CeilDiv(rows, rows_per_task), [&](int64_t task, int) {
    const int64_t last = std::min(rows, (task + 1) * rows_per_task);
    for (int64_t r = task * rows_per_task; r < last; ++r) run(r);
  });
}

}  // namespace holdfast
