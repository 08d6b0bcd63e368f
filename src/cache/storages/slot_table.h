// A storage's table from chunk or block number to what lies there, in the arena's memory so that it counts.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "base/arena.h"
#include "base/status_macros.h"

namespace holdfast {

// An array that grows by pages of 8, 16, 32 ... entries: growing never moves an entry, shrinking never
// allocates (so a rewind cannot fail), and its bytes follow from its size alone. T is 8 bytes, trivially
// copyable.
template <typename T>
class SlotTable {
  static_assert(sizeof(T) == 8);

 public:
  // Bytes of a table of `entries`: 64 * (2^pages - 1), where pages is the least with 8 * (2^pages - 1) >=
  // entries.
  static int64_t BytesFor(int64_t entries) { return 64 * ((int64_t{1} << PagesFor(entries)) - 1); }

  explicit SlotTable(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  ~SlotTable() { Resize(0); }
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  int64_t size() const { return size_; }
  int64_t bytes() const { return BytesFor(size_); }

  T& operator[](int64_t i) const {
    const int page = PageOf(i);
    return pages_[static_cast<size_t>(page)][i - FirstOf(page)];
  }

  Status PushBack(T value) {
    const int page = PageOf(size_);
    if (pages_[static_cast<size_t>(page)] == nullptr) {
      HF_ASSIGN_OR_RETURN(std::byte * memory, arena_->Allocate(PageBytes(page)));
      pages_[static_cast<size_t>(page)] = reinterpret_cast<T*>(memory);
    }
    ++size_;
    (*this)[size_ - 1] = value;
    return OkStatus();
  }

  // REQUIRES size <= this->size().
  void Resize(int64_t size) {
    for (int page = PagesFor(size_) - 1; page >= PagesFor(size); --page) {
      T*& memory = pages_[static_cast<size_t>(page)];
      arena_->Free(reinterpret_cast<std::byte*>(memory), PageBytes(page));
      memory = nullptr;
    }
    size_ = size;
  }

 private:
  static constexpr int kMaxPages = 40;  // 8 * 2^40 entries

  static int PageOf(int64_t i) {
    return static_cast<int>(std::bit_width(static_cast<uint64_t>(i) / 8 + 1)) - 1;
  }
  static int64_t FirstOf(int page) { return 8 * ((int64_t{1} << page) - 1); }
  static int64_t PageBytes(int page) { return int64_t{64} << page; }
  static int PagesFor(int64_t entries) { return entries == 0 ? 0 : PageOf(entries - 1) + 1; }

  std::shared_ptr<Arena> arena_;
  std::array<T*, kMaxPages> pages_ = {};
  int64_t size_ = 0;
};

}  // namespace holdfast
