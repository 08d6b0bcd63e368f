#include "base/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace holdfast {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::byte* MustAllocate(Arena& arena, int64_t bytes) {
  const auto p = arena.Allocate(bytes);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? *p : nullptr;
}

bool AllZero(const std::byte* p, int64_t bytes) {
  return std::all_of(p, p + bytes, [](std::byte b) { return b == std::byte{0}; });
}

void Scribble(std::byte* p, int64_t bytes) {
  std::memset(p, 0xee, static_cast<size_t>(bytes));
}

TEST(ArenaTest, BlocksAreAlignedAndZero) {
  Arena arena;
  for (const int64_t bytes : {int64_t{1}, int64_t{64}, int64_t{65}, int64_t{10'000}, 3 * kMiB, 5 * kMiB}) {
    std::byte* p = MustAllocate(arena, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % kArenaAlignment, 0u);
    EXPECT_TRUE(AllZero(p, bytes));
    Scribble(p, bytes);
  }
}

TEST(ArenaTest, CountsBlocksAsThePlanDoes) {
  Arena arena;
  EXPECT_EQ(ArenaBlockBytes(1), 64);
  EXPECT_EQ(ArenaBlockBytes(64), 64);
  EXPECT_EQ(ArenaBlockBytes(65), 128);
  std::byte* a = MustAllocate(arena, 65);
  std::byte* b = MustAllocate(arena, 7 * kMiB + 1);
  EXPECT_EQ(arena.allocated_bytes(), ArenaBlockBytes(65) + ArenaBlockBytes(7 * kMiB + 1));
  EXPECT_GE(arena.reserved_bytes(), arena.allocated_bytes());
  arena.Free(a, 65);
  EXPECT_EQ(arena.allocated_bytes(), ArenaBlockBytes(7 * kMiB + 1));
  arena.Free(b, 7 * kMiB + 1);
  EXPECT_EQ(arena.allocated_bytes(), 0);
  EXPECT_EQ(arena.peak_bytes(), ArenaBlockBytes(65) + ArenaBlockBytes(7 * kMiB + 1));
}

TEST(ArenaTest, RecycledMemoryIsZeroAgain) {
  Arena arena;
  std::byte* keep = MustAllocate(arena, 100);
  std::byte* first = MustAllocate(arena, 4096);
  Scribble(first, 4096);
  arena.Free(first, 4096);
  std::byte* second = MustAllocate(arena, 4096);
  EXPECT_EQ(second, first);  // kept by size
  EXPECT_TRUE(AllZero(second, 4096));
  Scribble(second, 4096);
  arena.Free(second, 4096);
  arena.Free(keep, 100);  // the slab is empty: it is cut anew, from memory that was written
  std::byte* bigger = MustAllocate(arena, 100'000);
  EXPECT_TRUE(AllZero(bigger, 100'000));
}

TEST(ArenaTest, TheLimitIsExactAndAFailureChangesNothing) {
  Arena arena(1000 * 64);
  std::byte* a = MustAllocate(arena, 999 * 64);
  const auto refused = arena.Allocate(65);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  for (const char* part : {"128", "63936", "64000"}) {
    EXPECT_NE(refused.status().message().find(part), std::string::npos) << refused.status().message();
  }
  EXPECT_EQ(arena.allocated_bytes(), 999 * 64);
  std::byte* last = MustAllocate(arena, 64);
  EXPECT_FALSE(arena.Allocate(1).ok());
  arena.Free(last, 64);
  arena.Free(a, 999 * 64);
  EXPECT_TRUE(arena.Allocate(1000 * 64).ok());
}

TEST(ArenaTest, SizesThatCannotBeAreErrors) {
  Arena arena;
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const auto p = arena.Allocate(bytes);
    EXPECT_EQ(p.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(p.status().message().find(std::to_string(bytes)), std::string::npos);
  }
  const auto huge = arena.Allocate(int64_t{1} << 50);  // more than any address space
  EXPECT_EQ(huge.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(arena.allocated_bytes(), 0);
  EXPECT_EQ(arena.reserved_bytes(), 0);
}

TEST(ArenaTest, ASmallCacheTakesOneSmallSlab) {
  Arena arena;
  EXPECT_EQ(arena.reserved_bytes(), 0);
  MustAllocate(arena, 1000);
  EXPECT_EQ(arena.reserved_bytes(), 2 * kMiB);
  for (int i = 0; i < 20; ++i) MustAllocate(arena, 100'000);
  EXPECT_EQ(arena.reserved_bytes(), 2 * kMiB);
}

TEST(ArenaTest, ALargeBlockIsAddressSpaceThatGoesBackWhenFreed) {
  Arena arena;
  constexpr int64_t kLarge = int64_t{12} << 30;
  std::byte* p = MustAllocate(arena, kLarge);
  p[0] = std::byte{1};
  p[kLarge - 1] = std::byte{2};
  EXPECT_GE(arena.reserved_bytes(), kLarge);
  arena.Free(p, kLarge);
  EXPECT_EQ(arena.reserved_bytes(), 0);
  std::byte* again = MustAllocate(arena, kLarge);
  EXPECT_EQ(again[0], std::byte{0});
  EXPECT_EQ(again[kLarge - 1], std::byte{0});
}

TEST(ArenaTest, EmptySlabsGoBackToTheSystem) {
  Arena arena;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(MustAllocate(arena, kMiB));
  EXPECT_GE(arena.reserved_bytes(), 200 * kMiB);
  for (std::byte* p : blocks) arena.Free(p, kMiB);
  EXPECT_EQ(arena.allocated_bytes(), 0);
  EXPECT_LE(arena.reserved_bytes(), 64 * kMiB);
}

TEST(ArenaTest, RandomUseNeverOverlapsNorLeaks) {
  struct Block {
    std::byte* p;
    int64_t bytes;
    uint8_t mark;
  };
  Arena arena;
  std::mt19937 rng(3);
  std::vector<Block> live;
  int64_t expected = 0;
  constexpr int64_t kSizes[] = {1, 64, 1000, 1000, 4096, 70'000, 70'000, kMiB, 3 * kMiB, 4 * kMiB, 6 * kMiB};
  for (int step = 0; step < 3000; ++step) {
    if (live.empty() || rng() % 100 < 52) {
      const int64_t bytes = kSizes[rng() % std::size(kSizes)];
      std::byte* p = MustAllocate(arena, bytes);
      ASSERT_TRUE(AllZero(p, std::min<int64_t>(bytes, 5000)) && p[bytes - 1] == std::byte{0});
      const auto mark = static_cast<uint8_t>(1 + rng() % 255);
      std::memset(p, mark, static_cast<size_t>(std::min<int64_t>(bytes, 5000)));
      p[bytes - 1] = std::byte{mark};
      live.push_back({p, bytes, mark});
      expected += ArenaBlockBytes(bytes);
    } else {
      std::swap(live[rng() % live.size()], live.back());
      const Block b = live.back();
      live.pop_back();
      ASSERT_TRUE(b.p[0] == std::byte{b.mark} && b.p[b.bytes - 1] == std::byte{b.mark});
      arena.Free(b.p, b.bytes);
      expected -= ArenaBlockBytes(b.bytes);
    }
    ASSERT_EQ(arena.allocated_bytes(), expected);
    ASSERT_GE(arena.reserved_bytes(), expected);
  }
  for (const Block& b : live) arena.Free(b.p, b.bytes);
  EXPECT_EQ(arena.allocated_bytes(), 0);
}

TEST(ArenaTest, ThreadsMayShareOne) {
  Arena arena;
  const auto work = [&arena](uint8_t mark) {
    for (int i = 0; i < 500; ++i) {
      std::byte* p = MustAllocate(arena, 500);
      ASSERT_TRUE(AllZero(p, 500));
      std::memset(p, mark, 500);
      ASSERT_EQ(p[499], std::byte{mark});
      arena.Free(p, 500);
    }
  };
  std::thread other(work, uint8_t{1});
  work(2);
  other.join();
  EXPECT_EQ(arena.allocated_bytes(), 0);
}

TEST(HugeBufferTest, IsZeroAlignedAndMovable) {
  auto made = HugeBuffer::Allocate(3 * kMiB + 5);
  ASSERT_TRUE(made.ok()) << made.status().message();
  HugeBuffer a = std::move(made).value();
  EXPECT_EQ(a.size_bytes(), 3 * kMiB + 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % static_cast<uintptr_t>(kArenaAlignment), 0u);
  EXPECT_TRUE(AllZero(a.data(), a.size_bytes()));
  Scribble(a.data(), a.size_bytes());
  HugeBuffer b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: the moved-from state is part of the contract
  EXPECT_EQ(a.size_bytes(), 0);
  EXPECT_EQ(b.data()[0], std::byte{0xee});
  HugeBuffer c;
  c = std::move(b);
  EXPECT_EQ(c.data()[3 * kMiB + 4], std::byte{0xee});
}

TEST(HugeBufferTest, RefusesSizesThatCannotBe) {
  EXPECT_EQ(HugeBuffer::Allocate(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(HugeBuffer::Allocate(-3).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(HugeBuffer::Allocate(int64_t{1} << 50).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace holdfast
