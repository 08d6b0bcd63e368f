#include "attention/workspace.h"

#include <algorithm>

#include "base/checked.h"
#include "base/status_macros.h"

namespace holdfast {
namespace {

// Parts start on cache lines; threads write to no line of another's.
int64_t Lines(int64_t bytes) {
  return RoundUp(bytes, 64);
}

// Hands out the parts of a thread's scratch one after another; with a null base it only counts.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}
  template <typename T>
  T* Take(int64_t count) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += Lines(count * static_cast<int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(at);
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

ThreadScratch CutThread(const ScratchSizes& s, Cutter& cut) {
  ThreadScratch t;
  t.prepared = cut.Take<std::byte>(s.held_queries * s.prepared_bytes);
  t.scores = cut.Take<float>(s.queries * kChunkRows);
  t.chunk_o = cut.Take<float>(s.queries * s.o_stride);
  t.run_o = cut.Take<float>(s.held_queries * s.o_stride);
  t.chunk_heads = cut.Take<PartialHead>(s.queries);
  t.run_heads = cut.Take<PartialHead>(s.held_queries);
  t.reference = cut.Take<PartialHead>(s.held_queries);
  t.views = cut.Take<ChunkView>(s.queries);
  t.poisoned = cut.Take<bool>(s.held_queries);
  t.offsets = cut.Take<float>(s.held_queries);
  t.halves = cut.Take<float>(s.query_halves);
  t.bounds = cut.Take<float>(s.page_heads * s.page_stride);
  t.pages = cut.Take<int64_t>(s.sparse_pages);
  return t;
}

// How long each part of the buffer is.
struct WorkspaceParts {
  int64_t hole_bytes = 0, thread_bytes = 0, heads_bytes = 0, o_bytes = 0, group_bounds_bytes = 0,
          group_pages_bytes = 0;
  int64_t bytes_after_hole(const ScratchSizes& s) const {
    return s.threads * thread_bytes + heads_bytes + o_bytes + group_bounds_bytes + group_pages_bytes;
  }
};

WorkspaceParts PartsOf(const ScratchSizes& s) {
  Cutter count(nullptr);
  CutThread(s, count);
  WorkspaceParts parts;
  parts.hole_bytes = Lines(s.hole_bytes);
  parts.thread_bytes = count.used();
  parts.heads_bytes = Lines(s.partials * static_cast<int64_t>(sizeof(PartialHead)));
  parts.o_bytes = Lines(s.partials * s.o_stride * static_cast<int64_t>(sizeof(float)));
  parts.group_bounds_bytes =
      Lines(s.choosing_groups * s.page_heads * s.page_stride * static_cast<int64_t>(sizeof(float)));
  parts.group_pages_bytes = Lines(s.choosing_groups * s.sparse_pages * static_cast<int64_t>(sizeof(int64_t)));
  return parts;
}

// A growing context asks for a little more every 256 tokens: a quarter ahead makes that rare.
int64_t WithRoom(int64_t bytes) {
  return bytes + bytes / 4;
}

}  // namespace

int64_t WorkspaceBytes(const ScratchSizes& sizes) {
  const WorkspaceParts parts = PartsOf(sizes);
  return WithRoom(parts.hole_bytes + parts.bytes_after_hole(sizes));
}

Status AttentionWorkspace::State::Fit(const ScratchSizes& sizes) {
  const WorkspaceParts parts = PartsOf(sizes);
  const int64_t hole_bytes = std::max(hole_bytes_, parts.hole_bytes);
  const int64_t needed = hole_bytes + parts.bytes_after_hole(sizes);
  if (needed > buffer_.size_bytes() || hole_bytes > hole_bytes_) {
    const int64_t bytes = std::max(WithRoom(needed), buffer_.size_bytes());
    buffer_ = HugeBuffer();  // never both at once
    HF_ASSIGN_OR_RETURN(buffer_, HugeBuffer::Allocate(bytes));
    hole_bytes_ = hole_bytes;
  }
  if (sizes.groups > left_size_) {
    left_ = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(sizes.groups));
    left_size_ = sizes.groups;
  }
  sizes_ = sizes;
  thread_bytes_ = parts.thread_bytes;
  hole_ = buffer_.data();
  threads_ = buffer_.data() + hole_bytes_;
  std::byte* partials = threads_ + sizes.threads * parts.thread_bytes;
  partial_heads_ = reinterpret_cast<PartialHead*>(partials);
  partial_o_ = reinterpret_cast<float*>(partials + parts.heads_bytes);
  std::byte* group = partials + parts.heads_bytes + parts.o_bytes;
  group_bounds_ = reinterpret_cast<float*>(group);
  group_pages_ = reinterpret_cast<int64_t*>(group + parts.group_bounds_bytes);
  return OkStatus();
}

ThreadScratch AttentionWorkspace::State::Thread(int thread) const {
  Cutter cut(threads_ + thread * thread_bytes_);
  return CutThread(sizes_, cut);
}

int64_t AttentionWorkspace::State::bytes() const {
  return buffer_.size_bytes() + plan.bytes() +
         left_size_ * static_cast<int64_t>(sizeof(std::atomic<int32_t>));
}

AttentionWorkspace::AttentionWorkspace() : state_(std::make_unique<State>()) {}
AttentionWorkspace::~AttentionWorkspace() = default;
AttentionWorkspace::AttentionWorkspace(AttentionWorkspace&&) noexcept = default;
AttentionWorkspace& AttentionWorkspace::operator=(AttentionWorkspace&&) noexcept = default;
int64_t AttentionWorkspace::bytes() const {
  return state_->bytes();
}

}  // namespace holdfast
