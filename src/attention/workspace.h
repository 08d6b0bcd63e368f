// The scratch of Attend: one buffer, cut anew each call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "attention/attend.h"
#include "attention/page_choice.h"
#include "attention/plan.h"
#include "base/arena.h"

namespace holdfast {

// What one thread needs for one task. `queries` are those of one KV head, `held` those of all its heads.
struct ThreadScratch {
  std::byte* prepared = nullptr;       // [held, prepared_bytes]
  float* scores = nullptr;             // [queries, kChunkRows], the weights in place
  float* chunk_o = nullptr;            // [queries, o_stride]
  float* run_o = nullptr;              // [held, o_stride]
  PartialHead* chunk_heads = nullptr;  // [queries]
  PartialHead* run_heads = nullptr;    // [held]
  PartialHead* reference = nullptr;    // [held] what drop_small compares weights with
  ChunkView* views = nullptr;          // [queries]
  bool* poisoned = nullptr;            // [held]
  float* offsets = nullptr;            // [held]
  float* halves = nullptr;             // [query_halves]
  float* bounds = nullptr;             // [heads, page_stride]
  int64_t* pages = nullptr;            // [sparse_pages]
  PageChoice choice;                   // what the task at hand visits
};

// Sizes of a call that the scratch is cut by.
struct ScratchSizes {
  int threads = 1;
  int64_t queries = 0;
  int64_t held_queries = 0;
  int64_t prepared_bytes = 0;  // of one query
  int64_t o_stride = 0;        // floats
  int64_t hole_bytes = 0;
  int64_t partials = 0;
  int64_t groups = 0;
  // Where pages are chosen; a thread has bounds and pages, and so does each of the first choosing_groups.
  int64_t query_halves = 0;  // floats
  int64_t page_heads = 0;    // query heads of a KV head
  int64_t page_stride = 0;
  int64_t sparse_pages = 0;
  int64_t choosing_groups = 0;
};

// The buffer that Fit makes for these sizes, at most.
int64_t WorkspaceBytes(const ScratchSizes& sizes);

struct AttentionWorkspace::State {
  AttentionPlan plan;

  // Makes room. Errors: kResourceExhausted; may throw std::bad_alloc.
  Status Fit(const ScratchSizes& sizes);
  // REQUIRES Fit(sizes) since the sizes last changed.
  ThreadScratch Thread(int thread) const;
  const std::byte* hole() const { return hole_; }  // zeros, for ever
  PartialHead* partial_heads() const { return partial_heads_; }
  float* partial_o() const { return partial_o_; }
  float* group_bounds(int64_t group) const {
    return group_bounds_ + group * sizes_.page_heads * sizes_.page_stride;
  }
  int64_t* group_pages(int64_t group) const { return group_pages_ + group * sizes_.sparse_pages; }
  std::atomic<int32_t>& left(int64_t group) { return left_[static_cast<size_t>(group)]; }
  int64_t bytes() const;

 private:
  ScratchSizes sizes_;
  HugeBuffer buffer_;
  int64_t hole_bytes_ = 0;  // zeroed front of the buffer
  int64_t thread_bytes_ = 0;
  std::byte* threads_ = nullptr;
  const std::byte* hole_ = nullptr;
  PartialHead* partial_heads_ = nullptr;
  float* partial_o_ = nullptr;
  float* group_bounds_ = nullptr;
  int64_t* group_pages_ = nullptr;
  std::unique_ptr<std::atomic<int32_t>[]> left_;
  int64_t left_size_ = 0;
};

}  // namespace holdfast
