#include "base/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, size) ((void)(p), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(p, size) ((void)(p), (void)(size))
#endif

namespace holdfast {
namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int64_t kFirstSlabBytes = kHugePageBytes;
constexpr int64_t kLargestSlabBytes = int64_t{64} << 20;
// Blocks from here on have a mapping of their own that goes back to the system when they are freed: their
// sizes rarely repeat (a growing buffer), so kept ones would be memory lost.
constexpr int64_t kOwnMappingBytes = int64_t{4} << 20;
// Slabs with room left that a new block is tried in.
constexpr size_t kMaxOpenSlabs = 8;
// Far above any machine, far below where rounding up could overflow.
constexpr int64_t kLargestBlockBytes = int64_t{1} << 56;

// Address space of `bytes`, aligned to a huge page, zero, not resident until touched; null if there is none.
std::byte* MapHuge(int64_t bytes) {
  const int64_t padded = bytes + kHugePageBytes;
  void* raw = mmap(nullptr, static_cast<size_t>(padded), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % kHugePageBytes);
  const int64_t head = misaligned == 0 ? 0 : kHugePageBytes - misaligned;
  if (head > 0) munmap(begin, static_cast<size_t>(head));
  munmap(begin + head + bytes, static_cast<size_t>(kHugePageBytes - head));
  madvise(begin + head, static_cast<size_t>(bytes),
          MADV_HUGEPAGE);  // advice: a kernel without them is no error
  return begin + head;
}

void Unmap(std::byte* p, int64_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(p, static_cast<size_t>(bytes));
  munmap(p, static_cast<size_t>(bytes));
}

Status SizeError(const char* operation, int64_t bytes) {
  return InvalidArgument(std::string(operation) + ": " + std::to_string(bytes) +
                         " bytes is not within 1 to " + std::to_string(kLargestBlockBytes));
}

Status SystemFull(const char* operation, int64_t bytes) {
  return ResourceExhausted(std::string(operation) + ": " + std::to_string(bytes) +
                           " bytes: the system has no memory left");
}

}  // namespace

int64_t ArenaBlockBytes(int64_t bytes) {
  return RoundUp(bytes, kArenaAlignment);
}

struct Arena::State {
  struct Slab {
    int64_t size = 0;
    int64_t used = 0;   // [0, used) has been handed out
    int64_t dirty = 0;  // [0, dirty) may be non-zero; the rest is fresh from the system
    int64_t live = 0;   // bytes of it in live blocks
  };

  mutable std::mutex mutex;
  int64_t limit = 0;
  int64_t allocated = 0;
  int64_t reserved = 0;
  int64_t peak = 0;
  int64_t next_slab_bytes = kFirstSlabBytes;
  std::map<std::byte*, Slab> slabs;  // by first byte
  std::vector<std::byte*> open;      // slabs that new blocks are cut from, oldest first
  std::unordered_map<int64_t, std::vector<std::byte*>> free_blocks;  // by size
  std::map<std::byte*, int64_t> own_mappings;                        // mapped bytes of large blocks

  // A block of `size` bytes, zeroed; null if the system has none.
  std::byte* Take(int64_t size) {
    if (size >= kOwnMappingBytes) return TakeOwnMapping(size);
    if (std::byte* p = TakeFreed(size)) return p;
    for (std::byte* base : open) {
      if (slabs[base].size - slabs[base].used >= size) return Cut(base, size);
    }
    if (!AddSlab(size)) return nullptr;
    return Cut(open.back(), size);
  }

  std::byte* TakeOwnMapping(int64_t size) {
    const int64_t mapped = RoundUp(size, kHugePageBytes);
    std::byte* p = MapHuge(mapped);
    if (p == nullptr) return nullptr;
    own_mappings[p] = mapped;
    reserved += mapped;
    return p;
  }

  std::byte* TakeFreed(int64_t size) {
    const auto found = free_blocks.find(size);
    if (found == free_blocks.end()) return nullptr;
    std::byte* p = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) free_blocks.erase(found);
    ASAN_UNPOISON_MEMORY_REGION(p, static_cast<size_t>(size));
    std::memset(p, 0, static_cast<size_t>(size));
    SlabOf(p)->second.live += size;
    return p;
  }

  std::byte* Cut(std::byte* base, int64_t size) {
    Slab& slab = slabs[base];
    std::byte* p = base + slab.used;
    ASAN_UNPOISON_MEMORY_REGION(p, static_cast<size_t>(size));
    const int64_t dirty = std::clamp<int64_t>(slab.dirty - slab.used, 0, size);
    if (dirty > 0) std::memset(p, 0, static_cast<size_t>(dirty));
    slab.used += size;
    slab.live += size;
    return p;
  }

  bool AddSlab(int64_t at_least) {
    const int64_t size = std::max(next_slab_bytes, RoundUp(at_least, kHugePageBytes));
    std::byte* base = MapHuge(size);
    if (base == nullptr) return false;
    ASAN_POISON_MEMORY_REGION(base, static_cast<size_t>(size));
    next_slab_bytes = std::min(next_slab_bytes * 2, kLargestSlabBytes);
    reserved += size;
    slabs[base] = Slab{.size = size};
    if (open.size() == kMaxOpenSlabs) {
      open.erase(std::min_element(open.begin(), open.end(), [this](std::byte* a, std::byte* b) {
        return slabs[a].size - slabs[a].used < slabs[b].size - slabs[b].used;
      }));
    }
    open.push_back(base);
    return true;
  }

  std::map<std::byte*, Slab>::iterator SlabOf(std::byte* p) { return std::prev(slabs.upper_bound(p)); }

  void Give(std::byte* p, int64_t size) {
    if (size >= kOwnMappingBytes) {
      const auto own = own_mappings.find(p);
      reserved -= own->second;
      Unmap(p, own->second);
      own_mappings.erase(own);
      return;
    }
    const auto slab = SlabOf(p);
    slab->second.live -= size;
    free_blocks[size].push_back(p);
    ASAN_POISON_MEMORY_REGION(p, static_cast<size_t>(size));
    if (slab->second.live == 0) Empty(slab->first);
  }

  // A slab without live blocks forgets how it was cut. The last one is kept for the next block, others go
  // back.
  void Empty(std::byte* base) {
    Slab& slab = slabs[base];
    for (auto list = free_blocks.begin(); list != free_blocks.end();) {
      std::erase_if(list->second, [&](std::byte* p) { return p >= base && p < base + slab.size; });
      list = list->second.empty() ? free_blocks.erase(list) : std::next(list);
    }
    const bool is_open = std::find(open.begin(), open.end(), base) != open.end();
    if (slabs.size() > 1) {
      if (is_open) std::erase(open, base);
      reserved -= slab.size;
      Unmap(base, slab.size);
      slabs.erase(base);
      return;
    }
    slab.dirty = std::max(slab.dirty, slab.used);
    slab.used = 0;
    if (!is_open) open.push_back(base);
  }
};

Arena::Arena(int64_t limit_bytes) : state_(std::make_unique<State>()) {
  state_->limit = limit_bytes;
}

Arena::~Arena() {
  for (const auto& [base, slab] : state_->slabs) Unmap(base, slab.size);
  for (const auto& [base, mapped] : state_->own_mappings) Unmap(base, mapped);
}

Result<std::byte*> Arena::Allocate(int64_t bytes) {
  if (bytes <= 0 || bytes > kLargestBlockBytes) return SizeError("arena", bytes);
  const int64_t size = ArenaBlockBytes(bytes);
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (s.limit > 0 && size > s.limit - s.allocated) {
    return ResourceExhausted("arena: " + std::to_string(size) + " bytes on top of " +
                             std::to_string(s.allocated) + " in use exceed the limit of " +
                             std::to_string(s.limit));
  }
  std::byte* p = s.Take(size);
  if (p == nullptr) return SystemFull("arena", size);
  s.allocated += size;
  s.peak = std::max(s.peak, s.allocated);
  return p;
}

void Arena::Free(std::byte* p, int64_t bytes) {
  const int64_t size = ArenaBlockBytes(bytes);
  const std::lock_guard lock(state_->mutex);
  state_->allocated -= size;
  state_->Give(p, size);
}

int64_t Arena::allocated_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocated;
}

int64_t Arena::reserved_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reserved;
}

int64_t Arena::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

Result<HugeBuffer> HugeBuffer::Allocate(int64_t bytes) {
  if (bytes <= 0 || bytes > kLargestBlockBytes) return SizeError("buffer", bytes);
  static const int64_t page = sysconf(_SC_PAGESIZE);
  // Whole huge pages only where they are a small part of it.
  const int64_t mapped = RoundUp(bytes, bytes >= kHugePageBytes ? kHugePageBytes : page);
  std::byte* p = MapHuge(mapped);
  if (p == nullptr) return SystemFull("buffer", bytes);
  HugeBuffer buffer;
  buffer.data_ = p;
  buffer.size_ = bytes;
  buffer.mapped_ = mapped;
  return buffer;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) Unmap(data_, mapped_);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

}  // namespace holdfast
