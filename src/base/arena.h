// Memory for rows and weights: 64-byte aligned, zeroed, in slabs that asked for huge pages.
//
// Reading a gibibyte from huge pages was measured a third faster than from 4 KiB pages, which is the
// difference between a cache that reaches the memory's bandwidth and one that does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr int64_t kArenaAlignment = 64;

// Bytes that Allocate(bytes) really takes: rounded up to kArenaAlignment. Plans use this same function.
int64_t ArenaBlockBytes(int64_t bytes);

// Hands out zeroed memory of any size; freed memory is kept by size and zeroed again when reused. Memory
// comes from the system in slabs as it is needed, never ahead. Thread-safe.
class Arena {
 public:
  // limit_bytes: ceiling on allocated_bytes(); 0 = none.
  explicit Arena(int64_t limit_bytes = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Errors: kInvalidArgument (bytes <= 0), kResourceExhausted (limit reached or the system has none left).
  Result<std::byte*> Allocate(int64_t bytes);
  // REQUIRES: p came from Allocate(bytes) of this arena with the same bytes.
  void Free(std::byte* p, int64_t bytes);

  int64_t allocated_bytes() const;  // sum of ArenaBlockBytes over live blocks
  int64_t reserved_bytes() const;   // address space taken in slabs
  int64_t peak_bytes() const;       // largest allocated_bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One buffer with the same properties, for weights and scratch. Move-only.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  static Result<HugeBuffer> Allocate(int64_t bytes);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  int64_t mapped_ = 0;
};

}  // namespace holdfast
